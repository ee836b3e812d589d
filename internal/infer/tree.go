// SPDX-License-Identifier: Apache-2.0

package infer

import "math/rand/v2"

// Sizes of the trees.
const (
	treeDepth   = 6
	forestDepth = 8
	forestTrees = 50
)

// A tree is complete: node i goes to 2i+1 where the feature is at most the threshold,
// else to 2i+2, so every window passes as many nodes as it is deep. That is the most
// that a tree of its depth costs.
type tree struct {
	depth  int
	nodes  []node
	leaves []float64 // share of class 1
}

type node struct {
	feature   int32
	threshold float32
}

// leafParts is the denominator of the leaves' shares: sums of them are exact in every
// order and precision.
const leafParts = 128

// newTree splits by thresholds that stand in windows of pool. Its leaves are odd
// numbers of leafParts, so that no leaf is undecided.
func newTree(r *rand.Rand, pool []Vector, depth int) *tree {
	t := &tree{depth: depth, nodes: make([]node, 1<<depth-1), leaves: make([]float64, 1<<depth)}
	for i := range t.nodes {
		f := r.IntN(Features)
		t.nodes[i] = node{int32(f), pool[r.IntN(len(pool))][f]}
	}
	for i := range t.leaves {
		t.leaves[i] = float64(2*r.IntN(leafParts/2)+1) / leafParts
	}
	return t
}

// share is that of class 1 in the leaf that x comes to.
func (t *tree) share(x *Vector) float64 {
	i := 0
	for range t.depth {
		n := &t.nodes[i]
		i = 2*i + 1
		if x[n.feature] > n.threshold {
			i++
		}
	}
	return t.leaves[i-len(t.nodes)]
}

func (t *tree) Predict(x *Vector) byte {
	if t.share(x) > 0.5 {
		return 1
	}
	return 0
}

type forest []*tree

// newForest has leaves of even numbers in its first tree, so that the odd number of
// odd ones beside it leaves no vote undecided.
func newForest(r *rand.Rand, pool []Vector) forest {
	f := make(forest, forestTrees)
	for i := range f {
		f[i] = newTree(r, pool, forestDepth)
	}
	for i := range f[0].leaves {
		f[0].leaves[i] -= 1.0 / leafParts
	}
	return f
}

// Predict implements Model: the mean of the trees' shares decides.
func (f forest) Predict(x *Vector) byte {
	sum := 0.0
	for _, t := range f {
		sum += t.share(x)
	}
	if 2*sum > float64(len(f)) {
		return 1
	}
	return 0
}
