// SPDX-License-Identifier: Apache-2.0

// Package infer is a detector as a load: features of windows of frames, and five
// models that tell two classes of windows apart. The models' parameters are made from
// a seed, not learned from traffic: what they say means nothing, what they cost does.
//
//	frame -> Decode -> Packet -> Window.Add -> Vector -> Model.Predict
package infer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Features is how many a Vector has.
const Features = 24

// Names are the features in a Vector's order; docs/infer.md defines them.
var Names = [Features]string{
	"packets", "octets", "duration_s", "packets_per_s", "octets_per_s",
	"gap_mean_s", "gap_sd_s", "gap_min_s", "gap_max_s",
	"size_mean", "size_sd", "size_min", "size_max",
	"tcp_share", "udp_share", "icmp_share", "syn_share", "end_share",
	"sources", "destinations", "source_ports", "destination_ports",
	"source_entropy", "destination_port_entropy",
}

// A Vector is a window's features, in single precision as detectors keep them.
type Vector [Features]float32

// A Model says to which of two classes a window belongs.
type Model interface {
	// Predict is 0 or 1. It is not safe for concurrent use.
	Predict(x *Vector) byte
}

// A Learner is a Model that learns while it works.
type Learner interface {
	Model
	// Learn takes x as an example of class y, 0 or 1.
	Learn(x *Vector, y byte)
}

// The models. None is no model: features alone.
const (
	None      = "none"
	Logistic  = "logistic"  // logistic regression
	Tree      = "tree"      // one decision tree of depth 6
	Forest    = "forest"    // 50 trees of depth 8
	Hoeffding = "hoeffding" // a tree that learns from each window, after it was predicted
	MLP       = "mlp"       // perceptron of 24, 32, 16 and 1 units
)

// Models are those that predict.
var Models = []string{Logistic, Tree, Forest, Hoeffding, MLP}

// A Detector is a model and what it needs beside.
type Detector struct {
	Name    string
	Model   Model
	teacher *linear // says the class of what a Learner learns
	learner Learner // Model, where it learns
}

// New makes the model of that name for windows like those of pool from the seed: equal
// arguments make equal models, on every architecture that does not fuse a
// multiplication with an addition; pool is not empty.
func New(name string, seed uint64, pool []Vector) (*Detector, error) {
	if len(pool) == 0 {
		return nil, fmt.Errorf("model %s: there is no window to make it for", name)
	}
	r := rand.New(rand.NewPCG(seed, uint64(slices.Index(Models, name)+1)))
	d := &Detector{Name: name}
	switch name {
	case Logistic:
		d.Model = newLinear(r, pool)
	case Tree:
		d.Model = newTree(r, pool, treeDepth)
	case Forest:
		d.Model = newForest(r, pool)
	case MLP:
		d.Model = newMLP(r, pool)
	case Hoeffding:
		d.teacher, d.learner = newLinear(r, pool), newHoeffding()
		d.Model = d.learner
	default:
		return nil, fmt.Errorf("there is no model %q: the models are %s", name, strings.Join(Models, ", "))
	}
	return d, nil
}

// Learns says whether Step teaches the model, too.
func (d *Detector) Learns() bool { return d.learner != nil }

// Step predicts x's class and has a Learner learn x, with the class that a rule made
// from the seed gives it.
func (d *Detector) Step(x *Vector) byte {
	y := d.Model.Predict(x)
	if d.learner != nil {
		d.learner.Learn(x, d.teacher.Predict(x))
	}
	return y
}

// Class is what x is taught as; 0 where nothing is taught.
func (d *Detector) Class(x *Vector) byte {
	if d.teacher == nil {
		return 0
	}
	return d.teacher.Predict(x)
}
