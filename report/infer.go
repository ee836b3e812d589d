// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"boxdyno/report/internal/phrase"
	"boxdyno/result"
	"boxdyno/unit"
)

// inferOf is nil for rows of other procedures.
func inferOf(p result.Record, at func(metric string) *Figure) *Infer {
	if p.Procedure != inferProcedure {
		return nil
	}
	number := func(key string) int {
		n, _ := strconv.Atoi(result.Get(p.Config, key))
		return n
	}
	i := &Infer{
		Model: result.Get(p.Config, "model"), Runtime: result.Get(p.Config, "runtime"), Window: result.Get(p.Config, "window"),
		Batch: number("batch"), CPUs: number("cpus"), Buffer: number("buffer"),
	}
	fill(i, at)
	if rate := result.Get(p.Config, "rate"); rate != "none" {
		i.Rate, i.FrameSize = rate, strings.TrimPrefix(result.Get(p.Config, "frame_size"), "0")
	}
	return i
}

// orderInfer puts a model's runtimes side by side.
func orderInfer(a, b *Infer) int {
	if a == nil || b == nil {
		return 0
	}
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

// name is the row's, in words.
func (i *Infer) name() []string {
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

// summary is the row in a sentence's second half.
func (i *Infer) summary() string {
	switch {
	case i.Windows != nil && i.Each != nil:
		s := fmt.Sprintf("%s windows/s, %ss a window", strings.TrimSpace(unit.SI(i.Windows.Value)), unit.SI(i.Each.Value))
		if i.ModelTime != nil {
			s += fmt.Sprintf(", of which the model takes %ss", unit.SI(i.ModelTime.Value))
		}
		return s
	case i.Added != nil && i.Added.Value > 0:
		return fmt.Sprintf("drops of %s of the frames are added to those of the capture alone", phrase.Percent(i.Added.Value))
	case i.Added != nil:
		s := "no drops are added to those of the capture alone"
		if i.CPUAdded != nil {
			s += fmt.Sprintf(", %ss of CPU a frame are", unit.SI(i.CPUAdded.Value))
		}
		return s
	}
	return ""
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
