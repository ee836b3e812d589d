// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/crew"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/ledger"
	"boxdyno/procedure"
	"boxdyno/procedure/capture"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/subject/web"
	"boxdyno/unit"
)

// A siege is what a floodPoint has where the box itself is flooded:
//
//	tester                                      box
//	clients: HTTP, real sockets  ====\
//	engine: the flood            ======= port | sensor | TCP | nginx
//
//	server started, which has answered
//	book.Begin -> clients ............................................ -> they end
//	                before | the engine sends the flood | after           -> Balance
//
// The account is the flood's as far as the box's port: what the clients sent is taken off.
type siege struct {
	port   lab.Port
	dut    host.Port
	tx     engine.Transmitter
	book   *ledger.Book
	server func(ctx context.Context) (web.Server, error) // starts it
	leave  func() error
}

const (
	throughBox = "through"
	toBox      = "box"

	webPort = 8080 // of the server; those who have a box may have one at 80
)

// attacksBox says whether the box itself is flooded.
func (p *Flood) attacksBox() bool { return p.target.Value == toBox }

// serverPort is where the box's server listens.
func (p *Flood) serverPort() uint16 {
	if p.port.Value > 0 {
		return uint16(p.port.Value)
	}
	return webPort
}

// checkBox refuses what a flood of the box itself cannot be.
func (p *Flood) checkBox(bed *lab.Testbed) error {
	const why = "target box: "
	switch {
	case p.IPv6():
		return errors.New(why + "it is flooded over IPv4 only: leave ip at 4")
	case p.sources.Value != fromNetwork:
		return errors.New(why + "answers to spoofed addresses would leave the box by another port: leave sources at network")
	case p.Service.Value != "route" || p.Direction.Value != trial.LanToWAN:
		return errors.New(why + "nothing is forwarded: leave service and direction as they are")
	case len(bed.Ports) == 0:
		return fmt.Errorf(why+"topology %s has no port", bed.Topology)
	}
	return nil
}

// ofTheFlood is the filter of a sensor that counts the flood and not the clients; without a
// port, one of the same kind.
func ofTheFlood(bed *lab.Testbed) string {
	if bed == nil || len(bed.Ports) == 0 || !bed.Ports[0].Addr4.IsValid() {
		return "ip"
	}
	return fmt.Sprintf("ip dst %v and not ip src %v", bed.Ports[0].Gateway4, bed.Ports[0].Addr4)
}

// attackers are addresses after own that the box finds at the tester's port, too.
func attackers(own netip.Addr) netip.Prefix {
	raw := own.As4()
	raw[3] = raw[3]&^3 + 4
	return netip.PrefixFrom(netip.AddrFrom4(raw), 30)
}

// openBox is undone by close, even where it fails.
func (m *floodPoint) openBox(ctx context.Context) (err error) {
	bed := m.env.Bed
	path, err := trial.ToBox(bed)
	if err != nil {
		return err
	}
	m.siege = &siege{port: bed.Ports[0], dut: path.Hops[1].Port}
	s := m.siege
	if err := bed.Serve(ctx, lab.Service{Kind: "route", Flows: 1}); err != nil {
		return err
	}
	var there web.Machine = web.Local{Host: bed.DUT}
	cpus := bed.DUTCPUs
	if far, ok := bed.Subjects.(web.Machine); ok {
		there, cpus = far, nil
	}
	if err := there.HasWeb(ctx); err != nil {
		return err
	}
	if s.leave, err = trial.Talk(ctx, bed); err != nil {
		return fmt.Errorf("clients: %w", err)
	}
	s.server = func(ctx context.Context) (web.Server, error) {
		return there.ServeWeb(ctx, netip.AddrPortFrom(s.port.Gateway4, m.serverPort()), cpus)
	}
	if s.tx, err = crew.Open(ctx, bed.Engine, []host.Port{s.port.Port}, m.cpus()); err != nil {
		return err
	}
	// Bare: the tracepoint would see every frame of the flood that ends.
	if s.book, err = ledger.OpenBare([]ledger.Path{path}, bed.Sources...); err == nil {
		s.book.Settle = trial.EffortOf(m.Preset.Value).Settle
	}
	return err
}

func (s *siege) close() (err error) {
	if s.book != nil {
		s.book.Close()
	}
	if s.tx != nil {
		err = s.tx.Close()
	}
	if s.leave != nil {
		err = errors.Join(err, s.leave())
	}
	return err
}

// storm is one trial: the box is flooded while clients ask its server.
func (m *floodPoint) storm(ctx context.Context, rate unit.FrameRate, lasts time.Duration) (o procedure.Outcome, err error) {
	s := m.siege
	stream, over, err := m.pure(s.port, s.port)
	if err != nil {
		return o, err
	}
	defer over()
	server, err := s.server(ctx) // anew: what a flood before left half open goes with its socket
	if err != nil {
		return o, fmt.Errorf("the box's server: %w", err)
	}
	defer func() { err = errors.Join(err, server.Kill()) }()
	var sensor *capture.Sensor
	if m.sensor.Value != noSensor {
		sensor = m.newSensor(m.env.Bed)
		probe := engine.Stream{Frames: trial.Between(s.port, s.port, frame.Mix{Sizes: []unit.FrameSize{frame.Smallest(false)}}, 1, false)}
		probe.Frames.Src = attackers(s.port.Addr4).Addr()
		if err := sensor.Begin(ctx, m.env, s.tx, s.dut, probe, rate); err != nil {
			return o, err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, sensor.Stop(ctx))
			}
		}()
	}
	if err := s.book.Begin(ctx); err != nil {
		return o, err
	}
	asking := newClients(s.port, netip.AddrPortFrom(s.port.Gateway4, m.serverPort()), m.requests.Value)
	asking.begin(ctx)
	begin := unit.Now()
	watch := trial.WatchTraffic(m.env, m.cpus()...)
	sent, err := m.attackBox(ctx, stream, sensor, rate, lasts)
	watch.Stop()
	asked := asking.finish()
	if err != nil {
		return o, err
	}
	end := unit.Now()
	a, err := s.book.Balance(ctx, func(context.Context) (ledger.Ends, error) {
		return ledger.Ends{Intended: sent.Intended, Accepted: sent.Accepted, Refused: sent.Refused, NotSent: sent.NotSent, Received: sent.Accepted}, nil
	})
	if err != nil {
		return o, err
	}
	s.settle(&a)
	o = procedure.Outcome{Account: &a, Ceiling: m.ceiling, Load: &result.Load{
		MeanSize: m.mean, Streams: 1, Backend: m.env.Bed.Engine.Name(),
		Intended: rate, Offered: sent.Offered, Peak: sent.Peak, Batch: sent.Batch,
		Late: int64(sent.Late), Stalls: int64(sent.Stalls), LongestStall: int64(sent.LongestStall),
	}}
	last := max(sent.Last, sent.First+1)
	o.Phases = []result.Phase{
		{Name: beforeFlood, Begin: begin, End: sent.First}, {Name: duringFlood, Begin: sent.First, End: last}, {Name: afterFlood, Begin: last, End: max(end, last)},
	}
	watch.Tell(ctx, &o, sent.First, last)
	if sensor != nil {
		if err := sensor.End(ctx, &o, int64(sent.Accepted), sent.Last); err != nil {
			return o, err
		}
		for i := range o.Values {
			if v := &o.Values[i]; seenOfFlood[v.Metric] != "" {
				v.Metric = seenOfFlood[v.Metric]
			}
		}
	}
	m.told(&o, asked, sent)
	return o, nil
}

// seenOfFlood are a sensor's figures where what it counts is the flood.
var seenOfFlood = map[string]string{"sensor_seen_ratio": "flood_seen_ratio", "sensor_missed": "flood_missed", "sensor_dropped": "flood_dropped"}

// attackBox sends the flood amid a time without it on either side.
func (m *floodPoint) attackBox(ctx context.Context, stream engine.Stream, sensor *capture.Sensor, rate unit.FrameRate, lasts time.Duration) (sent engine.TxReport, err error) {
	if sensor != nil {
		defer sensor.Follow(ctx)()
	}
	if err := host.Pause(ctx, m.effort.before); err != nil {
		return sent, err
	}
	reports, err := m.siege.tx.Transmit(ctx, engine.Load{Rate: rate, Duration: lasts}, stream)
	if err != nil {
		return sent, err
	}
	return reports[0], host.Pause(ctx, m.effort.after)
}

// settle makes a the flood's account as far as the box's port: what left the tester's port
// beside it are the clients' frames.
func (s *siege) settle(a *result.Account) {
	came, beside := int64(0), -a.Accepted
	for _, t := range a.Passed {
		switch {
		case t.Place == result.Tester && t.Link == s.port.Name && strings.HasSuffix(t.From, " tx_packets"):
			beside += t.N
		case t.Place == result.DUTNIC && t.Link == s.dut.Name && strings.HasSuffix(t.From, " rx_packets"):
			came += t.N
		}
	}
	a.Received = came - beside
	trial.EndAt(a, result.DUTNIC, "the box's port")
}

// told makes figures and a verdict of what the clients were answered.
func (m *floodPoint) told(o *procedure.Outcome, asked []request, sent engine.TxReport) {
	type phase struct {
		asked, failed int
		took          []float64 // of the answered ones, s
	}
	var at [3]phase
	back := sent.Last // begin of the first request after which all are answered
	unanswered := false
	for _, r := range asked {
		i := 1
		if r.begin < sent.First {
			i = 0
		} else if r.begin > sent.Last {
			i = 2
		}
		p := &at[i]
		p.asked++
		if r.answered {
			p.took = append(p.took, r.took.Seconds())
		} else {
			p.failed++
		}
		switch {
		case i == 2 && unanswered && r.answered:
			back = r.begin
		case i == 2 && !unanswered && !r.answered:
			back = r.begin
		}
		unanswered = i == 2 && !r.answered
	}
	share := func(p phase) float64 { return float64(p.failed) / math.Max(float64(p.asked), 1) }
	during := float64(o.Phases[1].End-o.Phases[1].Begin) / 1e9
	flood := float64(sent.Accepted) / math.Max(during, 1e-9)
	o.Values = append(o.Values, figures.Value("service_survival_ratio", 1-share(at[1])),
		figures.Value("service_requests", float64(at[1].asked)),
		figures.Value("service_failed_before", float64(at[0].failed)), figures.Value("service_failed", float64(at[1].failed)), figures.Value("service_failed_after", float64(at[2].failed)))
	if !unanswered {
		v := figures.Value("service_recovery_s", math.Max(float64(back-sent.Last)/1e9, 0))
		if at[2].failed == 0 {
			v.Value, v.Bound = 1/float64(m.requests.Value), result.AtMost
		}
		o.Values = append(o.Values, v)
	}
	for i, metric := range []string{"service_latency_before_p99_s", "service_latency_p99_s"} {
		if took := at[i].took; len(took) > 0 {
			slices.Sort(took)
			o.Values = append(o.Values, figures.Value(metric, took[(len(took)*99-1)/100]))
		}
	}
	o.Values = append(o.Values, figures.Value("flood_offered_fps", flood), figures.Value("flood_offered_bps", flood*8*m.mean),
		figures.Value("flood_sent", float64(sent.Accepted)), figures.Value("ceiling_fps", float64(m.ceiling)))
	var wrong []string
	if at[0].asked == 0 || at[1].asked == 0 {
		o.Status, o.Reason = result.Invalid, "no client asked before the flood, or during it"
		return
	}
	if share(at[0]) > float64(m.may) {
		wrong = append(wrong, fmt.Sprintf("%d of %d requests were not answered before the flood began", at[0].failed, at[0].asked))
	}
	if share(at[1]) > float64(m.may) {
		wrong = append(wrong, fmt.Sprintf("%s of %d requests a second were answered during a %s of %v (%d of %d were not, and %s may be)",
			sharePercent(1-share(at[1])), m.requests.Value, floodNames[m.kind.Value], unit.FrameRate(flood), at[1].failed, at[1].asked, sharePercent(float64(m.may))))
	}
	if unanswered {
		wrong = append(wrong, fmt.Sprintf("the last request, %v after the flood had ended, was not answered", m.effort.after))
	}
	o.Status, o.Reason = result.Passed, strings.Join(wrong, "; ")
	if len(wrong) > 0 {
		o.Status = result.Failed
	}
}

const besieged = "A flooded box: the share of its clients' requests that were answered"

var siegeMetrics = []result.Metric{
	{Name: "service_survival_ratio", Label: "answered", Group: besieged, Share: true, Heads: true, Unit: "1", Better: 1, Help: "target box: share of the HTTP requests begun during the flood that the box's server answered within 2 s"},
	{Name: "service_recovery_s", Label: "back after", Heads: true, Unit: "s", Better: -1, Help: "from the flood's last frame to the first request from which on all were answered; <=: all were; absent if the last one was not"},
	{Name: "service_latency_before_p99_s", Label: "before", Unit: "s", Better: -1, Help: "time from connect to the last octet of answered requests before the flood: 99th percentile"},
	{Name: "service_latency_p99_s", Label: "during", Unit: "s", Better: -1, Help: "the same during the flood"},
	{Name: "service_requests", Unit: "1", Help: "requests begun during the flood"},
	{Name: "service_failed_before", Unit: "1", Better: -1, Help: "requests begun before the flood that were not answered"},
	{Name: "service_failed", Unit: "1", Better: -1, Help: "requests begun during the flood that were not answered"},
	{Name: "service_failed_after", Unit: "1", Better: -1, Help: "requests begun after the flood that were not answered"},
	{Name: "flood_seen_ratio", Label: "seen", Group: "A sensor on a flooded box: frames of the flood that it counted", Share: true, Heads: true, Unit: "1", Better: 1, Help: "target box: share of the flood's frames that the sensor counted"},
	{Name: "flood_missed", Label: "missed", Unit: "1", Better: -1, Help: "frames of the flood that it did not count, whether they came as far as its socket or not"},
	{Name: "flood_dropped", Label: "dropped there", Unit: "1", Better: -1, Help: "of them, those that it says were dropped at its socket or by itself"},
}
