// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"flag"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"boxdyno/result"
	"boxdyno/unit"
)

// A Plant is a limit that a testbed's DUT has on purpose, for teaching and for
// tests: a search must find it, and the ledger must name it. It is plain data;
// zero plants nothing. Each of the DUT's ports has a limit of its own:
//
//	lan: XDP policer | tc loss | routing | nftables rule, service | wan: shaper      and back
//
// A service that throws frames away in XDP stands in the policer's place, one
// that does so in tc in that of the loss: there is neither then.
type Plant struct {
	Policer      unit.FrameRate // token bucket on what a port receives, whole frame/s
	PolicerBurst int            // frames that it holds; 0: what the rate brings in 1 ms
	Shaper       unit.BitRate   // layer-2 bit/s (with FCS) that a port sends: a tbf qdisc
	ShaperBurst  int            // octets that it lets pass at once; 0: what the rate brings in 1 ms, at least two frames
	ShaperQueue  int            // octets that wait in it; 0: what the rate brings in 10 ms, at least two frames
	Loss         LossPattern    // of frames that a port receives, counted from when the testbed is built
	LossSeed     uint64         // of the chance in Loss
	Rule         unit.FrameRate // an nftables rule drops what a port receives beyond it, whole frame/s
	RuleBurst    int            // frames that the rule lets pass at once; 0: what the rate brings in 1 ms
	Fault        string         // one of faults; "none", "": none
}

// A LossPattern loses the last Run of each Period frames, or frames at random.
type LossPattern struct {
	Period, Run uint64  // 0: not so
	Ratio       float64 // in (0, 1); 0: none at random
}

const (
	maxPoliced  = 1e8
	maxBurst    = 1_000_000_000
	maxOctets   = 1 << 30
	policedFor  = time.Millisecond
	shaperWaits = 10 * time.Millisecond
)

func (p *Plant) flags(fs *flag.FlagSet) {
	p.policerFlags(fs)
	fs.Var(bitRate(&p.Shaper), "dut.shaper", "plants a limit: layer-2 bit/s that each port of the DUT sends at most, such as 100Mbps (tbf); 0: none")
	fs.Var(within(&p.ShaperBurst, 0, maxOctets), "dut.shaper_burst", "octets that the shaper lets pass at once; 0: 1 ms of its rate, at least two frames")
	fs.Var(within(&p.ShaperQueue, 0, maxOctets), "dut.shaper_queue", "octets that wait in the shaper; 0: 10 ms of its rate, at least two frames")
	fs.Var(&p.Loss, "dut.loss", "plants loss at each DUT port's input: every:1000, burst:10/100000 (10 in a row of each 100000) or random:0.001; none: none")
	fs.Uint64Var(&p.LossSeed, "dut.loss_seed", 1, "seed of random:")
	var docs []string
	for _, f := range faults {
		docs = append(docs, f.name+": "+f.doc)
	}
	fs.Var(wholeRate(&p.Rule), "dut.rule", "plants a limit: frames a second above which an nftables rule drops what each DUT port forwards; 0: none")
	fs.Var(within(&p.RuleBurst, 0, maxBurst), "dut.rule_burst", "frames that the rule lets pass at once; 0: 1 ms of its rate")
	p.Fault = "none"
	fs.Var(oneOf(&p.Fault, faultNames()...), "dut.fault", "plants a fault, to see it named: "+strings.Join(docs, "; "))
}

func (p *Plant) policerFlags(fs *flag.FlagSet) {
	fs.Var(wholeRate(&p.Policer), "dut.policer", "plants a limit: frames a second that each DUT port accepts, such as 187k (token bucket); 0: none")
	fs.Var(within(&p.PolicerBurst, 0, maxBurst), "dut.policer_burst", "frames that the policer's bucket holds; 0: 1 ms of its rate")
}

// bucket is the policer's burst in frames.
func (p Plant) bucket() int { return bucket(p.Policer, p.PolicerBurst) }

// ruleBucket is the rule's.
func (p Plant) ruleBucket() int { return bucket(p.Rule, p.RuleBurst) }

func bucket(rate unit.FrameRate, burst int) int {
	if burst > 0 {
		return burst
	}
	return max(1, int(float64(rate)*policedFor.Seconds()))
}

// shaperSizes are the shaper's burst and queue in octets for ports of an MTU.
func (p Plant) shaperSizes(mtu int) (burst, queue int) {
	least := 2 * (mtu + 18)
	octets := func(set int, d time.Duration) int {
		if set > 0 {
			return set
		}
		return min(max(least, int(float64(p.Shaper)/8*d.Seconds())), maxOctets)
	}
	return octets(p.ShaperBurst, policedFor), octets(p.ShaperQueue, shaperWaits)
}

// planted says in words what stands in the DUT of which its figures tell; none
// where nothing is planted.
func (p Plant) planted(mtu int) (out []string) {
	if p.Policer > 0 {
		out = append(out, fmt.Sprintf("a policer of %.0f frame/s with a burst of %d on each port of the DUT (dut.policer)", float64(p.Policer), p.bucket()))
	}
	if p.Shaper > 0 {
		burst, queue := p.shaperSizes(mtu)
		out = append(out, fmt.Sprintf("a shaper of %v with a burst of %d and a queue of %d octets on each port of the DUT (dut.shaper)", p.Shaper, burst, queue))
	}
	if p.Loss != (LossPattern{}) {
		text := p.Loss.String()
		if p.Loss.Ratio > 0 {
			text += ", seed " + strconv.FormatUint(p.LossSeed, 10)
		}
		out = append(out, fmt.Sprintf("loss of frames that each port of the DUT receives: %s (dut.loss)", text))
	}
	if p.Rule > 0 {
		out = append(out, fmt.Sprintf("an nftables rule that drops what each port of the DUT forwards beyond %.0f frame/s with a burst of %d (dut.rule)", float64(p.Rule), p.ruleBucket()))
	}
	for _, f := range faults {
		if f.name == p.Fault {
			out = append(out, fmt.Sprintf("a fault: %s (dut.fault=%s)", f.doc, f.name))
		}
	}
	return out
}

// settings are the plants for the record, with every default's value.
func (p Plant) settings(mtu int) (kv []result.Pair) {
	add := func(key, value string) { kv = append(kv, result.Pair{Key: key, Value: value}) }
	if p.Policer > 0 {
		add("dut.policer", plainFloat(p.Policer))
		add("dut.policer_burst", strconv.Itoa(p.bucket()))
	}
	if p.Shaper > 0 {
		burst, queue := p.shaperSizes(mtu)
		add("dut.shaper", plainFloat(p.Shaper))
		add("dut.shaper_burst", strconv.Itoa(burst))
		add("dut.shaper_queue", strconv.Itoa(queue))
	}
	if p.Loss != (LossPattern{}) {
		add("dut.loss", p.Loss.String())
		add("dut.loss_seed", strconv.FormatUint(p.LossSeed, 10))
	}
	if p.Rule > 0 {
		add("dut.rule", plainFloat(p.Rule))
		add("dut.rule_burst", strconv.Itoa(p.ruleBucket()))
	}
	if p.Fault != "" && p.Fault != "none" {
		add("dut.fault", p.Fault)
	}
	return kv
}

// String is the pattern as Set reads it, "none" for none.
func (l *LossPattern) String() string {
	switch {
	case l == nil || *l == (LossPattern{}):
		return "none"
	case l.Ratio > 0:
		return "random:" + strconv.FormatFloat(l.Ratio, 'f', -1, 64)
	case l.Run == 1:
		return "every:" + strconv.FormatUint(l.Period, 10)
	}
	return fmt.Sprintf("burst:%d/%d", l.Run, l.Period)
}

// Set reads every:N, burst:RUN/PERIOD, random:RATIO or none.
func (l *LossPattern) Set(s string) error {
	kind, value, _ := strings.Cut(s, ":")
	wrong := fmt.Errorf("want every:1000, burst:10/100000, random:0.001 (a ratio between 0 and 1) or none")
	switch kind {
	case "none":
		if s != "none" {
			return wrong
		}
		*l = LossPattern{}
	case "random":
		r, err := strconv.ParseFloat(value, 64)
		if err != nil || !(r > 0 && r < 1) {
			return wrong
		}
		*l = LossPattern{Ratio: r}
	case "every", "burst":
		run, period := "1", value
		if kind == "burst" {
			run, period, _ = strings.Cut(value, "/")
		}
		n, err := strconv.ParseUint(run, 10, 63)
		of, err2 := strconv.ParseUint(period, 10, 63)
		if err != nil || err2 != nil || n == 0 || of == 0 || n > of {
			return wrong
		}
		*l = LossPattern{Period: of, Run: n}
	default:
		return wrong
	}
	return nil
}

// wholeRate is a flag whose value is a whole frame rate or 0.
func wholeRate(p *unit.FrameRate) parsed[unit.FrameRate] {
	f := frameRate(p)
	parse := f.parse
	f.parse = func(s string) (unit.FrameRate, error) {
		v, err := parse(s)
		if err == nil && (float64(v) != math.Trunc(float64(v)) || v > maxPoliced) {
			err = fmt.Errorf("frame rate %q: want a whole number of frame/s up to %.0f", s, maxPoliced)
		}
		return v, err
	}
	return f
}

// bitRate is a flag whose value is a bit rate or 0.
func bitRate(p *unit.BitRate) parsed[unit.BitRate] {
	return parsed[unit.BitRate]{p, plainFloat[unit.BitRate], func(s string) (unit.BitRate, error) {
		if s == "0" {
			return 0, nil
		}
		v, err := unit.ParseBitRate(s)
		if err == nil && (v < 8000 || v > 1e12) {
			err = fmt.Errorf("bit rate %q: want 8 kbit/s to 1 Tbit/s", s)
		}
		return v, err
	}}
}
