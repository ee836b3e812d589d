// SPDX-License-Identifier: Apache-2.0

package infer

// Params are a model's numbers, as programs/infer.py takes them.
type Params struct {
	Model    string `json:"model"`
	Features int    `json:"features"`

	Linear *LinearParams `json:"linear,omitempty"`
	Trees  []TreeParams  `json:"trees,omitempty"`
	Layers []LayerParams `json:"layers,omitempty"`

	Hoeffding *HoeffdingParams `json:"hoeffding,omitempty"`
}

// LinearParams are a weight for each feature, and the bias.
type LinearParams struct {
	Weights []float64 `json:"weights"`
	Bias    float64   `json:"bias"`
}

// TreeParams are a complete tree's: the nodes below node i are 2i+1, where the feature
// is at most the threshold, and 2i+2. Leaves follow the nodes, with the share of class
// 1.
type TreeParams struct {
	Feature   []int32   `json:"feature"`
	Threshold []float64 `json:"threshold"` // of single precision
	Leaves    []float64 `json:"leaves"`
}

// LayerParams are a row of weights for each unit of a layer, and its bias.
type LayerParams struct {
	Weights [][]float64 `json:"weights"`
	Bias    []float64   `json:"bias"`
}

// HoeffdingParams are those of the tree that learns.
type HoeffdingParams struct {
	Grace int     `json:"grace"`
	Delta float64 `json:"delta"`
	Tie   float64 `json:"tie"`
	Depth int     `json:"depth"`
}

// Params are the model's.
func (d *Detector) Params() Params {
	p := Params{Model: d.Name, Features: Features}
	switch m := d.Model.(type) {
	case *linear:
		p.Linear = &LinearParams{m.weights[:], m.bias}
	case *tree:
		p.Trees = []TreeParams{m.params()}
	case forest:
		for _, t := range m {
			p.Trees = append(p.Trees, t.params())
		}
	case *mlp:
		one, two := LayerParams{Bias: m.b1[:]}, LayerParams{Bias: m.b2[:]}
		for i := range m.w1 {
			one.Weights = append(one.Weights, m.w1[i][:])
		}
		for i := range m.w2 {
			two.Weights = append(two.Weights, m.w2[i][:])
		}
		p.Layers = []LayerParams{one, two, {[][]float64{m.w3[:]}, []float64{m.b3}}}
	case *hoeffding:
		p.Hoeffding = &HoeffdingParams{grace, delta, tie, mostDepth}
	}
	return p
}

func (t *tree) params() (p TreeParams) {
	for _, n := range t.nodes {
		p.Feature, p.Threshold = append(p.Feature, n.feature), append(p.Threshold, float64(n.threshold))
	}
	p.Leaves = t.leaves
	return p
}
