// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/internal/yaml"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/telemetry"
)

// A Watching says how the machine is watched while a run lasts: the plan's key
// telemetry, which is off, on, a rate in Hz, or a map of WatchingKeys.
type Watching struct {
	Off        bool
	Rate       float64  // Hz; 0: telemetry.DefaultRate
	Collectors []string // nil: those by default
	Meter      string   // a command that prints watts
	Plug       string   // URL of a smart plug
	Reading    string   // watts typed in by hand
	Places     []Metering
}

// A Metering is a further meter of a fleet, and what it sees (telemetry.Place).
type Metering struct {
	Of    string
	Meter string // a command; "": it is a plug
	Plug  string // URL
}

// WatchingKeys are those of the plan's key telemetry where it is a map.
var WatchingKeys = []string{"rate", "collectors", "meter", "plug", "reading"}

// Ask is what collectors need to be told.
func (w Watching) Ask() telemetry.Ask {
	a := telemetry.Ask{Meter: strings.Fields(w.Meter), Plug: w.Plug, Reading: w.Reading}
	for _, p := range w.Places {
		a.Places = append(a.Places, telemetry.Place{Of: p.Of, Meter: strings.Fields(p.Meter), Plug: p.Plug})
	}
	return a
}

// Set sets one of WatchingKeys, or by the key telemetry off, on or a rate.
func (w *Watching) Set(key, text string) error {
	switch key {
	case "telemetry":
		switch text {
		case "off", "false": // YAML 1.1 knows off as false
			*w = Watching{Off: true}
			return nil
		case "on", "true":
			w.Off = false
			return nil
		}
		if err := w.rate(text); err != nil {
			return fmt.Errorf("telemetry %q: want off, on, or a rate from %d to %d Hz", text, telemetry.MinRate, telemetry.MaxRate)
		}
		w.Off = false
	case "rate":
		if err := w.rate(text); err != nil {
			return fmt.Errorf("rate %q: want a number from %d to %d Hz", text, telemetry.MinRate, telemetry.MaxRate)
		}
	case "collectors":
		w.Collectors = nil
		for name := range strings.SplitSeq(text, ",") {
			if name = strings.TrimSpace(name); !slices.Contains(w.Collectors, name) {
				w.Collectors = append(w.Collectors, name)
			}
		}
	case "meter", "plug":
		w.place(key, text)
	case "reading":
		w.Reading = text
	}
	return nil
}

// place sets the one meter, or one of several in the place of that which sees the same.
func (w *Watching) place(key, text string) {
	of, rest := telemetry.SplitPlace(text)
	m := Metering{Of: of, Meter: rest}
	if key == "plug" {
		m = Metering{Of: of, Plug: rest}
	}
	if of == "" {
		w.Meter, w.Plug = cmp.Or(m.Meter, w.Meter), cmp.Or(m.Plug, w.Plug)
		return
	}
	w.Places = append(slices.DeleteFunc(slices.Clone(w.Places), func(o Metering) bool { return o.Of == of && (o.Plug == "") == (m.Plug == "") }), m)
}

// PublicPlug is a plug's URL without a name and password, as it may be kept.
func PublicPlug(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address
	}
	u.User = nil
	return u.String()
}

// Plugs are the URLs of all plugs.
func (w Watching) Plugs() (urls []string) {
	if w.Plug != "" {
		urls = append(urls, w.Plug)
	}
	for _, p := range w.Places {
		if p.Plug != "" {
			urls = append(urls, p.Plug)
		}
	}
	return urls
}

var errRate = errors.New("out of range")

func (w *Watching) rate(text string) error {
	hz, err := strconv.ParseFloat(text, 64)
	if err == nil && !(hz >= telemetry.MinRate && hz <= telemetry.MaxRate) {
		err = errRate
	}
	if err == nil {
		w.Rate = hz
	}
	return err
}

func parseWatching(n *yaml.Node) (w Watching, err error) {
	if n.Kind == yaml.Scalar {
		if err := w.Set("telemetry", n.Text); err != nil {
			return w, n.Errorf("%w", err)
		}
		return w, nil
	}
	if err := n.Want(yaml.Map, "telemetry"); err != nil {
		return w, err
	}
	if err := n.Only("telemetry", WatchingKeys...); err != nil {
		return w, err
	}
	for _, f := range n.Map {
		texts, err := f.Value.Texts(f.Key)
		if err != nil {
			return w, err
		}
		if f.Key == "meter" || f.Key == "plug" {
			if err := w.Meters(f.Key, texts); err != nil {
				return w, f.Value.Errorf("%w", err)
			}
			continue
		}
		if len(texts) != 1 && f.Key != "collectors" {
			return w, f.Value.Errorf("%s holds %d values, and must be one", f.Key, len(texts))
		}
		if err := w.Set(f.Key, strings.Join(texts, ",")); err != nil {
			return w, f.Value.Errorf("%w", err)
		}
	}
	return w, nil
}

// Meters sets several meters, or plugs, by key: each but one says what it sees.
func (w *Watching) Meters(key string, texts []string) error {
	var seen []string
	for _, text := range texts {
		of, _ := telemetry.SplitPlace(text)
		if slices.Contains(seen, of) {
			return fmt.Errorf("%s is given twice of %s: write what each sees in front, such as b1=... or all+switch=...", key, cmp.Or(of, "the same boards"))
		}
		seen = append(seen, of)
		if err := w.Set(key, text); err != nil {
			return err
		}
	}
	return nil
}

// fleetLab is the topology whose boards have meters of their own.
const fleetLab = "fleet"

// resolve gives every key a value and refuses what does not exist.
func (w Watching) resolve(specs []telemetry.Spec, at, lab string) (Watching, error) {
	if w.Off {
		return Watching{Off: true}, nil
	}
	if len(w.Places) > 0 && lab != fleetLab {
		return w, &PlanError{At: at, Err: fmt.Errorf("a meter sees %s: only boards of a fleet have several meters, by boxdyno fleet run", w.Places[0].Of)}
	}
	if w.Rate == 0 {
		w.Rate = telemetry.DefaultRate
	}
	_, err := telemetry.Choose(specs, w.Collectors)
	if err == nil {
		err = w.Ask().Check()
	}
	if err != nil {
		return w, &PlanError{At: at, Err: err}
	}
	return w, nil
}

// MarshalJSON writes what Parse reads, without the plug's password.
func (w Watching) MarshalJSON() ([]byte, error) {
	if w.Off {
		return []byte(`"off"`), nil
	}
	return json.Marshal(struct {
		Rate       float64  `json:"rate,omitempty"`
		Collectors []string `json:"collectors,omitempty"`
		Meter      any      `json:"meter,omitempty"`
		Plug       any      `json:"plug,omitempty"`
		Reading    string   `json:"reading,omitempty"`
	}{w.Rate, w.Collectors, w.texts(w.Meter, func(p Metering) string { return p.Meter }), w.texts(PublicPlug(w.Plug), func(p Metering) string { return PublicPlug(p.Plug) }), w.Reading})
}

// texts are meters as a plan has them: none, one, or a list.
func (w Watching) texts(one string, of func(Metering) string) any {
	var all []string
	if one != "" {
		all = append(all, one)
	}
	for _, p := range w.Places {
		if text := of(p); text != "" {
			all = append(all, p.Of+"="+text)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return all
}

func watchingSchema(specs []telemetry.Spec) object {
	names := []string{"all"}
	for _, s := range specs {
		names = append(names, s.Name)
	}
	meters := func(what string) object {
		return object{"description": what, "anyOf": []any{object{"type": "string"}, object{"type": "array", "minItems": 1, "items": object{"type": "string"}}}}
	}
	rate := object{"type": "number", "minimum": telemetry.MinRate, "maximum": telemetry.MaxRate, "default": telemetry.DefaultRate, "description": "samples a second"}
	name := object{"enum": names}
	return object{
		"description": "how the machine is watched: off, on, a rate in Hz, or in detail", "default": "on",
		"anyOf": []any{
			object{"enum": []any{"off", "on", true, false}}, rate,
			object{"type": "object", "additionalProperties": false, "properties": object{
				"rate":       rate,
				"collectors": object{"description": "what is read; without it what is read by default", "anyOf": []any{name, object{"type": "array", "minItems": 1, "items": name}}},
				"meter":      meters("a command that prints watts; of a fleet several, with what each sees: b1=COMMAND"),
				"plug":       meters("URL of a smart plug; of a fleet several, with what each sees: all+switch=URL"),
				"reading":    object{"description": "watts typed in by hand", "type": []string{"string", "number"}},
			}},
		},
	}
}

// spaces are the network namespaces of a testbed on this machine.
func spaces(bed *lab.Testbed) (out []telemetry.Space) {
	add := func(name, path string) {
		if path == "" {
			name = ""
		}
		if !slices.ContainsFunc(out, func(s telemetry.Space) bool { return s.Path == path }) {
			out = append(out, telemetry.Space{Name: name, Path: path})
		}
	}
	if bed.DUT != nil {
		add("dut", bed.DUT.Netns)
	}
	for _, p := range bed.Ports {
		add("tester", p.Netns)
	}
	return out
}

// samplerCPUs are those of allowed on which the sampler disturbs least; nil: any.
// None that tester and DUT are bound to, where there are others. Else those of the
// DUT: its threads have precedence, there is a pause in their work up to its limit,
// and what comes in a turn of 0.1 ms waits in a ring. A sender that is held up
// sends late, and the trial is invalid.
func samplerCPUs(bed *lab.Testbed, allowed []int) []int {
	left := func(busy ...int) (out []int) {
		for _, c := range allowed {
			if !slices.Contains(busy, c) {
				out = append(out, c)
			}
		}
		return out
	}
	out := left(append(slices.Concat(bed.CPUs, bed.DUTCPUs), bed.TesterCPU)...)
	if len(out) == 0 && bed.TesterCPU >= 0 {
		for _, c := range left(bed.TesterCPU) {
			if slices.Contains(bed.DUTCPUs, c) {
				out = append(out, c)
			}
		}
	}
	if len(out) == len(allowed) {
		return nil
	}
	return out
}

// allowedCPUs are those that this process may use.
func allowedCPUs() (cpus []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for c := range len(set) * 64 {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus
}

// Start starts telemetry of bed as a run does: of its namespaces, on the CPUs where it
// disturbs least. A DUT that is another machine is read beside. What w says stands in o's place.
func (w Watching) Start(ctx context.Context, bed *lab.Testbed, o telemetry.Options) (*telemetry.Sampler, error) {
	o.Names, o.Rate, o.CPUs = w.Collectors, w.Rate, samplerCPUs(bed, allowedCPUs())
	dut, watched := bed.Means.(lab.Watcher)
	if watched {
		o.Beside = []telemetry.Spec{dut.Watch(w.Collectors, o.Warn)}
	}
	switch {
	case boxOf(bed) != nil: // this machine's own collectors say nothing of it
		o.Specs, o.Names = telemetry.Given(o.Specs), nil
	case watched:
		o.Of = result.MachineTester
	}
	return telemetry.Start(ctx, &telemetry.Machine{Spaces: spaces(bed), Ask: w.Ask()}, o)
}

// telemetryEvery is what SIGKILL loses of telemetry at most.
const telemetryEvery = time.Second

// watch starts telemetry, and writes the header, which then has its series.
func (x *execution) watch(ctx context.Context) error {
	w := x.plan.Telemetry
	if w.Off || x.bed.Kind == result.KindMemory {
		return x.write()
	}
	var header error
	written := make(chan struct{}) // the header
	s, err := w.Start(ctx, x.bed, telemetry.Options{
		Specs:  x.o.Catalogue.Collectors,
		Origin: x.origin, Start: x.run.Start, Known: x.run.Series, Every: telemetryEvery, Warn: x.queueWarning,
		Write: func(lines []byte) error {
			<-written
			if header != nil {
				return header
			}
			return x.sink.Sample(lines)
		},
	})
	if err != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		return &PlanError{At: x.plan.at["telemetry"], Err: fmt.Errorf("telemetry: %w", err)}
	}
	x.sampler = s
	x.later(func() error { x.unwatch(); return nil })
	x.run.Series = s.Series()
	use := s.Use()
	use.Reading = w.Reading
	x.run.Telemetry = append(slices.Clone(x.run.Telemetry), use)
	x.flushWarnings()
	header = x.write()
	close(written)
	return header
}

// unwatch ends telemetry, once.
func (x *execution) unwatch() {
	if x.sampler == nil {
		return
	}
	use, err := x.sampler.Close()
	x.sampler = nil
	last := &x.run.Telemetry[len(x.run.Telemetry)-1]
	use.Idle, use.Reading = last.Idle, last.Reading
	*last = use
	x.flushWarnings()
	if err != nil {
		x.o.Log.Warn("telemetry ended in disorder", "error", err)
	}
	if use.Dropped > 0 {
		x.warn(fmt.Sprintf("%d octets of telemetry are missing: the disk was too slow", use.Dropped))
	}
}

// queueWarning keeps a warning of another goroutine until flushWarnings gives it out.
func (x *execution) queueWarning(text string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.warnings = append(x.warnings, text)
}

func (x *execution) flushWarnings() {
	x.mu.Lock()
	ws := x.warnings
	x.warnings = nil
	x.mu.Unlock()
	for _, w := range ws {
		x.warn(w)
	}
}

// watched carries out f, of a trial or of several at one time, and adds what telemetry saw to
// their outcomes.
func (x *execution) watched(ctx context.Context, id string, f func(context.Context) ([]procedure.Outcome, error)) ([]procedure.Outcome, []result.Digest, error) {
	if x.sampler == nil {
		outs, err := called(ctx, x, id, f)
		return outs, nil, err
	}
	x.sampler.Begin()
	outs, err := called(ctx, x, id, f)
	digests, gap := x.sampler.End()
	x.flushWarnings()
	if gap > 0 {
		for i, o := range outs {
			outs[i].Warnings = append(slices.Clip(o.Warnings), fmt.Sprintf("telemetry has a gap in this trial: a sample came %.0f ms late", gap.Seconds()*1e3))
		}
	}
	return outs, digests, err
}
