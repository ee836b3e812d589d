// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"boxdyno/report/internal/phrase"
	"boxdyno/unit"
)

func inferOf(m *measured) Block {
	i := set[Infer](m)
	i.FrameSize = strings.TrimPrefix(i.FrameSize, "0")
	if i.Rate == "none" {
		i.Rate, i.FrameSize = "", ""
	}
	m.row.FrameSize = i.FrameSize
	return i
}

// order puts a model's runtimes side by side.
func (*Infer) order(x, y *Row) int {
	a, b := both[*Infer](x, y)
	models := []string{"none", "logistic", "tree", "forest", "hoeffding", "mlp"}
	return cmp.Or(cmp.Compare(a.Window, b.Window), cmp.Compare(a.Rate, b.Rate), cmp.Compare(index(models, a.Model), index(models, b.Model)),
		strings.Compare(a.Runtime, b.Runtime), cmp.Compare(a.Batch, b.Batch), cmp.Compare(a.CPUs, b.CPUs))
}

// words are what else tells the row from others: "batch 64".
func (i *Infer) words() (words []string) {
	if i.Batch > 1 {
		words = append(words, "batch "+strconv.Itoa(i.Batch))
	}
	switch {
	case i.Rate != "":
		words = append(words, "at "+i.Rate)
		if i.FrameSize != "" {
			words = append(words, phrase.FrameSize(i.FrameSize))
		}
		if i.Buffer > 0 {
			words = append(words, "buffer "+strings.TrimSpace(unit.SI(float64(i.Buffer)))+"B")
		}
	case i.CPUs == 0:
		words = append(words, "all CPUs")
	case i.CPUs > 1:
		words = append(words, phrase.Count(i.CPUs, "CPU"))
	}
	return words
}

func (i *Infer) name(*Row, []string) []string {
	return slices.Concat([]string{inferProcedure + ", " + i.model(), i.Runtime, i.window()}, i.words())
}

func (i *Infer) model() string {
	if i.Model == "none" {
		return "features alone"
	}
	return i.Model
}

func (i *Infer) window() string {
	if i.Window == "10" {
		return "10 frames"
	}
	return "1 s"
}

func (i *Infer) summary(r *Row) (name, text string, whole bool) {
	rate, each, model, added, cpu := r.at(windowRate), r.at(windowTime), r.at(modelTime), r.at(dropsAdded), r.at(cpuAdded)
	switch {
	case rate != nil && each != nil:
		text = fmt.Sprintf("%s windows/s, %ss a window", strings.TrimSpace(unit.SI(rate.Value)), unit.SI(each.Value))
		if model != nil {
			text += fmt.Sprintf(", of which the model takes %ss", unit.SI(model.Value))
		}
	case added != nil && added.Value > 0:
		text = fmt.Sprintf("drops of %s of the frames are added to those of the capture alone", phrase.Percent(added.Value))
	case added != nil:
		text = "no drops are added to those of the capture alone"
		if cpu != nil {
			text += fmt.Sprintf(", %ss of CPU a frame are", unit.SI(cpu.Value))
		}
	}
	return r.Name, text, true
}

// signedShare is a share that may be negative.
func (f *Figure) signedShare() string {
	switch {
	case f == nil:
		return "-"
	case f.Value < 0:
		return "-" + phrase.Percent(-f.Value)
	}
	return phrase.Percent(f.Value)
}

// shares is the range of a share over the rounds.
func (f *Figure) shares() string {
	if f == nil || f.Lo == nil || f.Hi == nil || *f.Lo == *f.Hi {
		return "-"
	}
	return (&Figure{Value: *f.Lo}).signedShare() + " to " + (&Figure{Value: *f.Hi}).signedShare()
}
