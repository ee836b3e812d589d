// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/internal/made"
	"boxdyno/unit"
)

// A Memory is a program that writes, reads, copies or walks through memory. It is
// compiled on the machine, so that a 32-bit userland measures 32-bit code.
type Memory struct {
	Size     int64         // octets of a copy: of the locked buffer, of the working set, of each of STREAM's arrays
	Copies   int           // that have so much at once
	For      time.Duration // how long a kernel runs, in whole passes; not of STREAM
	Optimise string        // one of OptimiseLevels

	of memoryProgram
}

// A memoryProgram is a row: what is compiled, and what it says.
type memoryProgram struct {
	name    string
	source  string
	doc     string
	had     string // what it has, in words
	locked  bool
	takes   func(size int64) int64 // octets in all
	last    func(m *Memory) string // its second argument, which 0 is to try only
	figures func(text string, size int64) ([]result.Value, error)
}

// A memoryRefusal is printed where the memory cannot be had.
type memoryRefusal struct {
	Refused  string `json:"refused"`
	Bits     int    `json:"bits"`     // of an address
	Greatest int64  `json:"greatest"` // octets that could be had in one piece
	Allowed  uint64 `json:"allowed"`  // RLIMIT_MEMLOCK
}

// MemorySpecs are the subjects that measure memory.
func MemorySpecs() (specs subject.Specs) {
	for _, p := range []memoryProgram{memoryBandwidth, memoryLatency, memoryStream} {
		specs = append(specs, subject.Spec{Name: p.name, Work: "memory", Doc: p.doc + ", compiled on the machine", Metrics: MemoryMetrics, New: func() subject.Subject {
			return &Memory{Size: 64 << 20, Copies: 1, For: time.Second, Optimise: "O3", of: p}
		}})
	}
	return specs
}

// Flags implements Subject.
func (m *Memory) Flags(fs *flag.FlagSet) {
	fs.Int64Var(&m.Size, "size", m.Size, "`octets`: "+m.of.had)
	fs.DurationVar(&m.For, "for", m.For, "how `long` a kernel runs, in whole passes; of memory-stream without effect")
	fs.StringVar(&m.Optimise, "optimise", m.Optimise, "`level` of the compiler: O0 to O3")
}

func (m *Memory) made() made.Program {
	return made.Program{Name: m.of.name, Sources: []string{m.of.source, "memory.h"}, Flags: []string{"-" + m.Optimise}}
}

// LeastMemory is the least Size.
const LeastMemory = 4096

// memorySlack is what the machine keeps when the rest is taken.
const memorySlack = 64 << 20

// Check implements Subject. It compiles, and finds out whether the memory can be had
// without touching it. A *host.Missing says that the machine has not so much, or that this
// user may not lock it; another error that the program's addresses do not reach so far.
func (m *Memory) Check(ctx context.Context, h *host.Local) error {
	if !slices.Contains(OptimiseLevels(), m.Optimise) {
		return fmt.Errorf("optimise %q: want one of %s", m.Optimise, strings.Join(OptimiseLevels(), ", "))
	}
	if m.Size < LeastMemory {
		return fmt.Errorf("size %d: want %d octets at least for each copy", m.Size, LeastMemory)
	}
	program, err := m.made().Program(ctx, h)
	if err != nil {
		return err
	}
	takes, have := uint64(m.of.takes(m.Size))*uint64(m.Copies), h.MemoryAvailable()
	if have > 0 && takes+memorySlack > have {
		return &host.Missing{
			What: fmt.Sprintf("memory for %s: %s is needed, and %s is available", m.of.had, octetsText(takes), octetsText(have)),
			Hint: "give a smaller --set size, or end what uses the rest",
		}
	}
	out, err := h.Run(ctx, "", program, strconv.FormatInt(m.Size, 10), "0")
	if err != nil {
		return err
	}
	return m.refused(string(out))
}

// octetsText is a number of octets for people.
func octetsText(n uint64) string { return unit.SI(float64(n)) + "B" }

// refused is the sentence on memory that the program could not have.
func (m *Memory) refused(text string) error {
	var r memoryRefusal
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return fmt.Errorf("%s printed what is no figure: %.80q", m.of.name, text)
	}
	verb := map[bool]string{true: "lock", false: "have"}[m.of.locked]
	switch {
	case r.Refused == "":
		return nil
	case m.of.locked && r.Allowed < uint64(m.Size) && uint64(r.Greatest) <= r.Allowed:
		return &host.Missing{
			What: fmt.Sprintf("permission to lock %s of memory: this user may lock %s (RLIMIT_MEMLOCK)", octetsText(uint64(m.Size)), octetsText(r.Allowed)),
			Hint: fmt.Sprintf("run it with sudo, or raise the limit with ulimit -l %d", (m.Size+1023)/1024),
		}
	case r.Bits == 32:
		return fmt.Errorf("a 32-bit program cannot %s %s: it has addresses for 4 GiB at most, and could %s %s in one piece; a 64-bit userland can", verb, m.asked(), verb, octetsText(uint64(r.Greatest)))
	}
	return &host.Missing{
		What: fmt.Sprintf("memory: the kernel refused %s (%s), and the most that a program could %s in one piece is %s", m.asked(), r.Refused, verb, octetsText(uint64(r.Greatest))),
		Hint: "give a smaller --set size",
	}
}

// asked is what a copy asks for, in words.
func (m *Memory) asked() string {
	if takes := m.of.takes(m.Size); takes != m.Size {
		return fmt.Sprintf("%s in pieces of up to %s", octetsText(uint64(takes)), octetsText(uint64(m.Size)))
	}
	return octetsText(uint64(m.Size))
}

// Identify implements Worker.
func (m *Memory) Identify(ctx context.Context, h *host.Local) ([]result.Pair, error) {
	of, err := m.made().Identify(ctx, h)
	if err != nil {
		return nil, err
	}
	program, err := m.made().Program(ctx, h)
	if err != nil {
		return nil, err
	}
	out, err := h.Run(ctx, "", program, strconv.Itoa(LeastMemory), "0")
	var r memoryRefusal
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	return append(of, result.Pair{Key: "bits", Value: strconv.Itoa(r.Bits)}), err
}

// proveSize is how much memory is proven with.
const proveSize = 256 << 10

// Prove implements Worker: the same as when it is timed, over little memory.
func (m *Memory) Prove(ctx context.Context, h *host.Local) error {
	program, err := m.made().Program(ctx, h)
	if err != nil {
		return err
	}
	short := *m
	short.For = 10 * time.Millisecond
	out, err := h.Run(ctx, "", program, strconv.Itoa(proveSize), m.of.last(&short))
	if err != nil {
		return err
	}
	_, err = m.read(string(out), proveSize)
	return err
}

func (m *Memory) read(text string, size int64) ([]result.Value, error) {
	if err := m.refused(text); err != nil {
		return nil, err
	}
	return m.of.figures(text, size)
}

// Start implements Subject.
func (m *Memory) Start(ctx context.Context, e subject.Env) (subject.Running, error) {
	program, err := m.made().Program(ctx, e.Machine())
	if err != nil {
		return nil, err
	}
	return subject.Command{
		Name: m.of.name, Argv: []string{program, strconv.FormatInt(m.Size, 10), m.of.last(m)},
		Read: func(w subject.Worked) ([]result.Value, error) { return m.read(w.Stdout, m.Size) },
	}.Start(ctx, e)
}

func secondsOf(m *Memory) string { return fmt.Sprint(m.For.Seconds()) }

// printedJSON reads what a program printed into to.
func printedJSON(text string, to any) error {
	if err := json.Unmarshal([]byte(text), to); err != nil {
		return fmt.Errorf("it printed what is no figure: %.80q", text)
	}
	return nil
}

// MemoryMetrics are those of a Memory.
var MemoryMetrics = slices.Concat(memoryBandwidthMetrics, memoryLatencyMetrics, memoryStreamMetrics)
