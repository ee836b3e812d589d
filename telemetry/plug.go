// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/unit"
)

const (
	plugEvery   = time.Second
	plugTimeout = 3 * time.Second
	plugStale   = 5 * time.Second
	plugAnswer  = 64 << 10 // octets; a status has less than 4 KiB
)

// A reply is what a plug measures, NaN where it does not.
type reply struct{ watts, joules, volts, amperes float64 }

var nothing = reply{math.NaN(), math.NaN(), math.NaN(), math.NaN()}

var errNotThis = errors.New("no answer of this kind of plug")

// plugKinds are asked in this order which of them a plug is.
var plugKinds = []struct {
	name    string
	accepts func(ctx context.Context, p *plugClient) (model string, ask func(ctx context.Context) (reply, error), err error)
}{
	{"Shelly", shelly},
	{"Tasmota", tasmota},
}

// plug is a smart plug that measures what flows through it, asked once a second.
type plug struct {
	held
	fields []func(reply) float64
	poll   *poll
	client *plugClient
}

// newPlug finds out by asking what kind of plug is at the URL. One that cannot be
// asked is *host.Missing.
func newPlug(ctx context.Context, m *Machine) (Collector, error) {
	if m.Ask.Plug == "" {
		return nil, ErrAbsent
	}
	return startPlug(ctx, m.Ask.Plug, plugEvery, plugTimeout, plugStale)
}

func startPlug(ctx context.Context, address string, every, timeout, stale time.Duration) (Collector, error) {
	client, err := newPlugClient(address, timeout)
	if err != nil {
		return nil, err
	}
	meter, ask, err := client.detect(ctx)
	var first reply
	if err == nil {
		first, err = ask(ctx)
	}
	if err == nil && math.IsNaN(first.watts) {
		err = errors.New("it measures no power")
	}
	if err != nil {
		return nil, &host.Missing{What: "an answer of the smart plug " + client.base.Redacted(), Hint: err.Error()}
	}
	p := &plug{client: client}
	labels := meterLabels(meter, "", "")
	add := func(name string, u unit.Symbol, counter bool, help string, field func(reply) float64) {
		if math.IsNaN(field(first)) {
			return
		}
		of := labels
		if u == "W" { // its own count of energy goes by coarser steps
			of = meterLabels(meter, coversWall, "")
		}
		p.series = append(p.series, result.Series{Name: name, Labels: of, Unit: u, Counter: counter, Help: help})
		p.fields = append(p.fields, field)
	}
	add("boxdyno_power_watts", "W", false, "power through the smart plug, losses of the power supply included", func(r reply) float64 { return r.watts })
	add("boxdyno_energy_joules_total", "J", true, "energy through the smart plug by its own count, in steps of the plug's", func(r reply) float64 { return r.joules })
	add("boxdyno_meter_volts", "V", false, "mains voltage at the smart plug", func(r reply) float64 { return r.volts })
	add("boxdyno_meter_amperes", "A", false, "current through the smart plug", func(r reply) float64 { return r.amperes })
	p.series = append(p.series, ageSeries(labels))
	p.poll = startPoll(ctx, "smart plug "+client.base.Redacted(), len(p.fields), every, stale, func(ctx context.Context, dst []float64) error {
		now, err := ask(ctx)
		if err != nil {
			return err
		}
		for i, field := range p.fields {
			dst[i] = field(now)
		}
		return nil
	})
	p.closers = []io.Closer{p.poll}
	return p, nil
}

// ageSeries says how old the meter's other values are: they are repeated until the
// next answer.
func ageSeries(labels []result.Pair) result.Series {
	return result.Series{Name: "boxdyno_meter_age_seconds", Labels: labels, Unit: "s", Help: "time since the meter's last answer"}
}

// plugMean is taken for the time that a plug averages a power over.
const plugMean = 2 * time.Second

func (p *plug) Measured(int) (unit.Instant, time.Duration) { return p.poll.measured(), plugMean }

func (p *plug) Read(dst []float64) (err error) {
	n := len(p.fields)
	dst[n], err = p.poll.read(dst[:n])
	return err
}

func (p *plug) Close() error {
	err := p.held.Close()
	p.client.http.CloseIdleConnections()
	return err
}

// A plugClient talks HTTP to one plug.
type plugClient struct {
	base    *url.URL
	channel int // of a plug with several, from ?id=
	http    http.Client
}

func newPlugClient(address string, timeout time.Duration) (*plugClient, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("smart plug: want a URL such as http://192.0.2.7 or http://USER:PASSWORD@192.0.2.7") // err would show the password
	}
	c := &plugClient{base: &url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host}}
	if id := u.Query().Get("id"); id != "" {
		if c.channel, err = strconv.Atoi(id); err != nil || c.channel < 0 {
			return nil, fmt.Errorf("smart plug: id=%s: want the number of a channel, from 0", id)
		}
	}
	c.http = http.Client{
		Timeout:       timeout,
		Transport:     &http.Transport{MaxIdleConns: 1, IdleConnTimeout: time.Minute}, // no proxy: the plug is in the lab
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// detect asks what is there and how its power is read.
func (c *plugClient) detect(ctx context.Context) (meter string, ask func(context.Context) (reply, error), err error) {
	var tried []string
	for _, k := range plugKinds {
		model, ask, err := k.accepts(ctx, c)
		if err == nil {
			return model + " at " + c.base.Host, ask, nil
		}
		if !errors.Is(err, errNotThis) {
			return "", nil, err
		}
		tried = append(tried, fmt.Sprintf("no %s (%v)", k.name, err))
	}
	return "", nil, errors.New("it is " + strings.Join(tried, " and "))
}

// get reads a JSON answer into v. errNotThis: whatever is there does not know the
// path or speaks no JSON.
func (c *plugClient) get(ctx context.Context, path string, query url.Values, v any) error {
	u := *c.base
	u.Path, u.RawQuery = path, strings.ReplaceAll(query.Encode(), "+", "%20")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) { // its text has the URL, and a password in the query
			err = wrapped.Err
			if wrapped.Timeout() {
				err = fmt.Errorf("no answer within %v", c.http.Timeout)
			}
		}
		return fmt.Errorf("GET %s: %w", path, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, plugAnswer))
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	switch {
	case res.StatusCode == http.StatusUnauthorized:
		return c.refused(res)
	case res.StatusCode >= 300 && res.StatusCode < 400:
		return fmt.Errorf("%w: GET %s is redirected to %s; give the URL at which the plug itself answers", errNotThis, path, res.Header.Get("Location"))
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("%w: GET %s answers %s", errNotThis, path, res.Status)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%w: GET %s answers no JSON that it should: %w", errNotThis, path, err)
	}
	return nil
}

// refused says what a plug with a password needs.
func (c *plugClient) refused(res *http.Response) error {
	challenge := res.Header.Get("WWW-Authenticate")
	if scheme, _, _ := strings.Cut(challenge, " "); strings.EqualFold(scheme, "Digest") {
		return errors.New("it needs a password by digest authentication, which boxdyno does not speak: switch the plug's authentication off while you measure")
	}
	if c.base.User == nil {
		return errors.New("it needs a password: give it as http://USER:PASSWORD@" + c.base.Host)
	}
	return errors.New("it refuses the password of user " + c.base.User.Username())
}

// shelly are all generations: GET /shelly says which (shelly-api-docs.shelly.cloud).
func shelly(ctx context.Context, c *plugClient) (string, func(context.Context) (reply, error), error) {
	var is struct {
		Type  string // generation 1
		Gen   int    // 2 and later
		Model string
	}
	if err := c.get(ctx, "/shelly", nil, &is); err != nil {
		return "", nil, err
	}
	switch {
	case is.Gen >= 2:
		for _, method := range []string{"Switch.GetStatus", "PM1.GetStatus"} {
			ask := func(ctx context.Context) (reply, error) { return c.shelly2(ctx, method) }
			_, err := ask(ctx)
			if err == nil {
				return fmt.Sprintf("Shelly %s (generation %d)", is.Model, is.Gen), ask, nil
			}
			if !errors.Is(err, errNotThis) {
				return "", nil, err
			}
		}
		return "", nil, fmt.Errorf("it is a Shelly %s without a power meter of channel %d", is.Model, c.channel)
	case is.Type != "":
		return fmt.Sprintf("Shelly %s (generation 1)", is.Type), c.shelly1, nil
	}
	return "", nil, fmt.Errorf("%w: GET /shelly names neither type nor gen", errNotThis)
}

// shelly1 reads GET /status: meters with power in W and total in watt-minutes.
func (c *plugClient) shelly1(ctx context.Context) (reply, error) {
	var status struct {
		Meters []struct {
			Power, Total *float64
			IsValid      *bool `json:"is_valid"`
		}
	}
	if err := c.get(ctx, "/status", nil, &status); err != nil {
		return nothing, err
	}
	if c.channel >= len(status.Meters) {
		return nothing, fmt.Errorf("it has %d power meters, and channel %d is asked for (id=, from 0)", len(status.Meters), c.channel)
	}
	m := status.Meters[c.channel]
	r := nothing
	if m.IsValid == nil || *m.IsValid {
		r.watts, r.joules = times(m.Power, 1), times(m.Total, 60)
	}
	return r, nil
}

// shelly2 reads a component's status: apower in W, aenergy.total in Wh.
func (c *plugClient) shelly2(ctx context.Context, method string) (reply, error) {
	var status struct {
		APower, Voltage, Current *float64
		AEnergy                  struct{ Total *float64 }
		Errors                   []string
	}
	if err := c.get(ctx, "/rpc/"+method, url.Values{"id": {strconv.Itoa(c.channel)}}, &status); err != nil {
		return nothing, err
	}
	if status.APower == nil && len(status.Errors) == 0 {
		return nothing, fmt.Errorf("%w: %s has no apower", errNotThis, method)
	}
	return reply{times(status.APower, 1), times(status.AEnergy.Total, 3600), times(status.Voltage, 1), times(status.Current, 1)}, nil
}

// tasmota reads the command Status 8, StatusSNS.ENERGY: Power in W, Total in kWh
// (tasmota.github.io/docs/Commands).
func tasmota(ctx context.Context, c *plugClient) (string, func(context.Context) (reply, error), error) {
	query := url.Values{"cmnd": {"Status 8"}}
	if u := c.base.User; u != nil { // it looks for them there, too
		password, _ := u.Password()
		query.Set("user", u.Username())
		query.Set("password", password)
	}
	ask := func(ctx context.Context) (reply, error) {
		var status struct {
			StatusSNS *struct {
				Energy *struct{ Power, Total, Voltage, Current perChannel }
			}
			Warning string
		}
		if err := c.get(ctx, "/cm", query, &status); err != nil {
			return nothing, err
		}
		switch {
		case status.Warning != "": // before 8.2.3 with status 200
			return nothing, c.refused(&http.Response{})
		case status.StatusSNS == nil:
			return nothing, fmt.Errorf("%w: its Status 8 has no StatusSNS", errNotThis)
		case status.StatusSNS.Energy == nil:
			return nothing, errors.New("it is a Tasmota without a power meter: its Status 8 has no ENERGY")
		}
		e := status.StatusSNS.Energy
		return reply{e.Power.of(c.channel), e.Total.of(c.channel) * 3.6e6, e.Voltage.of(c.channel), e.Current.of(c.channel)}, nil
	}
	if _, err := ask(ctx); err != nil {
		return "", nil, err
	}
	return "Tasmota", ask, nil
}

func times(v *float64, factor float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v * factor
}

// perChannel is a number, or a list with one for each channel.
type perChannel []float64

func (p *perChannel) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]float64)(p))
	}
	var v float64
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	*p = perChannel{v}
	return nil
}

func (p perChannel) of(channel int) float64 {
	switch {
	case len(p) == 1: // a voltage that all channels share
		return p[0]
	case channel < len(p):
		return p[channel]
	}
	return math.NaN()
}
