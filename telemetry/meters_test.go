// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"boxdyno/host"
)

// until waits for what another goroutine or process does.
func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// plugs answers as the recorded plug of that name does, whatever the method.
func plugs(t testing.TB, name string) (http.HandlerFunc, *recorded) {
	r := record(t, "plugs")
	return func(w http.ResponseWriter, req *http.Request) {
		f := r.root[name+req.URL.Path]
		if f == nil || req.Method != http.MethodGet {
			http.NotFound(w, req)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(f.Data)
	}, r
}

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func TestPlugs(t *testing.T) {
	for _, c := range []struct {
		name, meter string
		want        map[string]float64
	}{
		{"shelly1", "Shelly SHPLG-S (generation 1)", map[string]float64{"boxdyno_power_watts": 2.21, "boxdyno_energy_joules_total": 439237 * 60}},
		{"shelly2", "Shelly SPSW-104PE16EU (generation 2)", map[string]float64{"boxdyno_power_watts": 5.4, "boxdyno_energy_joules_total": 123.664 * 3600, "boxdyno_meter_volts": 231.7, "boxdyno_meter_amperes": 0.043}},
		{"tasmota", "Tasmota", map[string]float64{"boxdyno_power_watts": 26, "boxdyno_energy_joules_total": 0.003 * 3.6e6, "boxdyno_meter_volts": 239, "boxdyno_meter_amperes": 0.106}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, _ := plugs(t, c.name)
			s := serve(t, func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Path == "/cm" && req.URL.RawQuery != "cmnd=Status%208" || req.URL.Path == "/rpc/Switch.GetStatus" && req.URL.RawQuery != "id=0" {
					http.Error(w, "a question that the plug does not know: "+req.URL.String(), http.StatusBadRequest)
					return
				}
				h(w, req)
			})
			p := collect(t, &Machine{Ask: Ask{Plug: strings.TrimPrefix(s.URL, "http://")}}, newPlug)
			defer closed(t, p)
			want := map[string]float64{}
			label := fmt.Sprintf(`{meter=%q}`, c.meter+" at "+strings.TrimPrefix(s.URL, "http://"))
			for k, v := range c.want {
				want[k+label] = v
			}
			power := "boxdyno_power_watts" + strings.TrimSuffix(label, "}") + `,covers="wall"}`
			want[power] = c.want["boxdyno_power_watts"]
			delete(want, "boxdyno_power_watts"+label)
			until(t, "the first answer", func() bool { return !math.IsNaN(values(t, p)[power]) })
			got := values(t, p)
			age := "boxdyno_meter_age_seconds" + label
			if a := got[age]; !(a >= 0 && a <= plugStale.Seconds()) {
				t.Errorf("the answer is %v s old", a)
			}
			delete(got, age)
			equal(t, c.name, got, want)
		})
	}
}

// What a plug may say instead of its power, and what the user reads then.
func TestPlugRefused(t *testing.T) {
	gen1, r := plugs(t, "shelly1")
	gen2, _ := plugs(t, "shelly2")
	basic := func(w http.ResponseWriter, req *http.Request) {
		if user, password, _ := req.BasicAuth(); user != "admin" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="shellyplug-s-000001"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		gen1(w, req)
	}
	digest := func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/shelly" { // it tells strangers what it is
			gen2(w, req)
			return
		}
		w.Header().Set("WWW-Authenticate", strings.TrimSpace(string(r.root["shelly2/challenge"].Data)))
		w.WriteHeader(http.StatusUnauthorized)
	}
	tasmotaPassword := func(status int) http.HandlerFunc {
		h, _ := plugs(t, "tasmota")
		return func(w http.ResponseWriter, req *http.Request) {
			if q := req.URL.Query(); req.URL.Path == "/cm" && (q.Get("user") != "admin" || q.Get("password") != "secret") {
				w.WriteHeader(status)
				_, _ = w.Write(r.root["tasmota/refused"].Data)
				return
			}
			h(w, req)
		}
	}
	say := func(path, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == path {
				_, _ = w.Write([]byte(body))
				return
			}
			gen1(w, req)
		}
	}
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		user string
		want []string // none: it works
	}{
		"basic, right":       {basic, "admin:secret@", nil},
		"basic, none":        {basic, "", []string{"needs a password", "http://USER:PASSWORD@127"}},
		"basic, wrong":       {basic, "admin:no-secret@", []string{"refuses the password of user admin"}},
		"digest":             {digest, "admin:secret@", []string{"digest authentication", "switch"}},
		"tasmota, right":     {tasmotaPassword(401), "admin:secret@", nil},
		"tasmota, none":      {tasmotaPassword(401), "", []string{"needs a password"}},
		"tasmota 8.2, none":  {tasmotaPassword(200), "", []string{"needs a password"}},
		"tasmota 8.2, wrong": {tasmotaPassword(200), "admin:no-secret@", []string{"refuses the password"}},
		"web page":           {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>router</html>")) }, "", []string{"no Shelly", "no Tasmota", "no JSON"}},
		"redirect":           {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "https://192.0.2.1/x", 302) }, "", []string{"redirected to https://192.0.2.1/x"}},
		"error":              {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "", []string{"500"}},
		"no meter":           {say("/status", `{"meters":[]}`), "", []string{"0 power meters", "channel 0"}},
		"meter not valid":    {say("/status", `{"meters":[{"power":0,"is_valid":false,"total":0}]}`), "", []string{"measures no power"}},
		"power is a text":    {say("/status", `{"meters":[{"power":"5"}]}`), "", []string{"no JSON that it should"}},
		"cut off":            {say("/status", `{"meters":[{"pow`), "", []string{"/status"}},
		"tasmota, no meter":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"StatusSNS":{"Time":"x"}}`)) }, "", []string{"Tasmota without a power meter"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, c.h)
			url := strings.Replace(s.URL, "://", "://"+c.user, 1)
			p, err := newPlug(t.Context(), &Machine{Ask: Ask{Plug: url}})
			if err == nil {
				closed(t, p)
			}
			if c.want == nil && err != nil {
				t.Fatal(err)
			}
			if c.want == nil {
				return
			}
			var missing *host.Missing
			if !errors.As(err, &missing) {
				t.Fatalf("%v, want a Missing", err)
			}
			for _, w := range c.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q does not say %q", err, w)
				}
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%q shows the password", err)
			}
		})
	}
	for _, u := range []string{"ftp://x", "http://", "http://a b:secret@x", "http://x/?id=-1", "http://x/?id=one"} {
		if _, err := newPlug(t.Context(), &Machine{Ask: Ask{Plug: u}}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", u, err)
		}
	}
}

func TestPlugChannel(t *testing.T) {
	body := `{"StatusSNS":{"ENERGY":{"Power":[3,7.5],"Total":[1,2],"Voltage":230}}}`
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != "/cm" {
			http.NotFound(w, req)
			return
		}
		_, _ = w.Write([]byte(body))
	})
	p := collect(t, &Machine{Ask: Ask{Plug: s.URL + "/?id=1"}}, newPlug)
	defer closed(t, p)
	label := `{meter="Tasmota at ` + strings.TrimPrefix(s.URL, "http://") + `"}`
	until(t, "an answer", func() bool {
		return values(t, p)["boxdyno_power_watts"+strings.TrimSuffix(label, "}")+`,covers="wall"}`] == 7.5
	})
	if got := values(t, p); got["boxdyno_energy_joules_total"+label] != 7.2e6 || got["boxdyno_meter_volts"+label] != 230 {
		t.Errorf("%v", got)
	}
}

// A plug that goes away in mid-run is NaN and said once, and comes back; one that is
// slow holds up no tick.
func TestPlugGoesAway(t *testing.T) {
	h, _ := plugs(t, "shelly2")
	var mode atomic.Int32 // 0 well, 1 hangs, 2 garbage
	release := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		switch mode.Load() {
		case 1:
			select {
			case <-req.Context().Done():
			case <-release:
			}
		case 2:
			_, _ = w.Write([]byte("\x00\xff{"))
		default:
			h(w, req)
		}
	})
	defer close(release)
	p, err := startPlug(t.Context(), s.URL, 20*time.Millisecond, 200*time.Millisecond, 1500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, p)
	dst := make([]float64, len(p.Series()))
	power := func() float64 { return dst[0] }
	for round, want := range map[int32]string{1: "no answer within 200ms", 2: "no JSON"} {
		mode.Store(0)
		until(t, "5.4 W", func() bool { err := p.Read(dst); return err == nil && power() == 5.4 })
		mode.Store(round)
		var said []error
		until(t, "absent", func() bool {
			if err := p.Read(dst); err != nil {
				said = append(said, err)
			}
			return math.IsNaN(power())
		})
		for range 20 {
			time.Sleep(5 * time.Millisecond)
			if err := p.Read(dst); err != nil {
				said = append(said, err)
			}
			for i, v := range dst {
				if !math.IsNaN(v) {
					t.Errorf("%s is %v while the plug is away", p.Series()[i].Name, v)
				}
			}
		}
		if len(said) != 1 || !strings.Contains(said[0].Error(), want) {
			t.Errorf("said %q, want once %q", said, want)
		}
	}
	mode.Store(0)
	until(t, "5.4 W again", func() bool { err := p.Read(dst); return err == nil && power() == 5.4 })
	s.Close() // and a plug without power of its own
	until(t, "absent", func() bool { err := p.Read(dst); return err != nil && strings.Contains(err.Error(), "refused") })
}

// quick is a meter's times for tests; only stale is waited for.
var quick = meterTimes{again: 10 * time.Millisecond, quiet: time.Minute, stale: time.Minute}

func shell(script string) []string { return []string{"/bin/sh", "-c", script} }

func TestMeter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "watts")
	write := func(s string) {
		if err := os.WriteFile(file+"~", []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+"~", file); err != nil {
			t.Fatal(err)
		}
	}
	write("5.2 W\n")
	for name, script := range map[string]string{
		"once":         "cat " + file,
		"lines":        "echo time,watts; while :; do cat " + file + "; sleep 0.02; done",
		"complains":    "cat " + file + "; echo no >&2; exit 1",
		"with garbage": "echo '~~'; cat " + file + "; echo '%%%'",
	} {
		t.Run(name, func(t *testing.T) {
			write("5.2 W\n")
			c, err := startMeter(t.Context(), shell(script), quick)
			if err != nil {
				t.Fatal(err)
			}
			dst := make([]float64, 2)
			if err := c.Read(dst); err != nil || dst[0] != 5.2 || !(dst[1] >= 0) {
				t.Errorf("%v (%v), want 5.2 W", dst, err)
			}
			write("6100mW\n")
			until(t, "6.1 W", func() bool { err := c.Read(dst); return err == nil && near(dst[0], 6.1) })
			closed(t, c)
		})
	}
	if got := prom(collect(t, &Machine{Ask: Ask{Meter: shell("echo 1")}}, newMeter).Series()[0]); got != `boxdyno_power_watts{meter="sh",covers="command"}` {
		t.Errorf("the series is %s", got)
	}
}

func TestMeterThatMeasuresNothing(t *testing.T) {
	hasty := quick
	hasty.quiet = 100 * time.Millisecond
	for script, want := range map[string]string{
		"true":                            "ended without a reading",
		"echo bad cable >&2; exit 3":      "bad cable (exit status 3)",
		"echo hello":                      `printed "hello", which is no power`,
		"echo NaN; echo 5 V":              `printed "NaN"`,
		"sleep 60":                        "printed nothing for 100ms and was killed",
		"echo hello; sleep 60":            `printed "hello"`,
		"head -c 100000 /dev/zero":        "a line without an end",
		"setsid sleep 30 & exec sleep 60": "printed nothing", // somebody left the group with its output
	} {
		begin := time.Now()
		if c, err := startMeter(t.Context(), shell(script), hasty); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v (%v), want %q", script, c, err, want)
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("%s: waited %v for somebody who sleeps", script, took)
		}
	}
	var missing *host.Missing
	if _, err := startMeter(t.Context(), []string{"/no/such/meter"}, hasty); !errors.As(err, &missing) || !strings.Contains(err.Error(), "/no/such/meter") {
		t.Errorf("no program: %v", err)
	}
}

func TestMeterHangsInMidRun(t *testing.T) {
	hasty := meterTimes{again: 10 * time.Millisecond, quiet: 200 * time.Millisecond, stale: 1500 * time.Millisecond}
	file := filepath.Join(t.TempDir(), "well")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := startMeter(t.Context(), shell("test -e "+file+" || sleep 60; echo 7"), hasty)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, c)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	dst, said := make([]float64, 2), 0
	until(t, "absent", func() bool {
		if err := c.Read(dst); err != nil {
			said++
			if !strings.Contains(err.Error(), "printed nothing for 200ms") {
				t.Error(err)
			}
		}
		return math.IsNaN(dst[0]) && math.IsNaN(dst[1])
	})
	for range 20 {
		time.Sleep(5 * time.Millisecond)
		if err := c.Read(dst); err != nil || !math.IsNaN(dst[0]) {
			t.Errorf("%v (%v)", dst, err)
		}
	}
	if said != 1 {
		t.Errorf("said %d times", said)
	}
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	until(t, "7 W again", func() bool { err := c.Read(dst); return err == nil && dst[0] == 7 })
}

// Nobody of the command's group is left, whatever it started.
func TestMeterIsKilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	c, err := startMeter(t.Context(), shell("sleep 1000 & echo $! > "+file+"; echo 3; wait"), quick)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(child, 0); err != nil {
		t.Fatalf("the command's child does not run: %v", err)
	}
	closed(t, c)
	until(t, "the command's child is gone", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		return err != nil || strings.Contains(string(stat), ") Z ") // nobody may be there who waits for orphans
	})
}

func TestParseWatts(t *testing.T) {
	for s, want := range map[string]float64{"5.2": 5.2, " 5.2 W\n": 5.2, "5200mW": 5.2, "0.0052 kW": 5.2, "-1.5w": -1.5, "1e1 watts": 10, ".5": 0.5, "7 Watt": 7, "250 µW": 250e-6} {
		if got, ok := ParseWatts(s); !ok || !near(got, want) {
			t.Errorf("%q is %v (%v), want %v", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "W", "NaN", "Inf", "1e999", "5,2", "5 V", "5 5", "0x10", "5.2.1", "5 MW"} {
		if got, ok := ParseWatts(s); ok {
			t.Errorf("%q is %v", s, got)
		}
	}
}

func TestReading(t *testing.T) {
	for typed, want := range map[string]struct {
		watts  float64
		series string
	}{
		"5.2W":              {5.2, `boxdyno_power_reading_watts{meter="manual"}`},
		"5.2 W idle":        {5.2, `boxdyno_power_reading_watts{meter="manual",state="idle"}`},
		"5200mW under load": {5.2, `boxdyno_power_reading_watts{meter="manual",state="under load"}`},
		"0 W off":           {0, `boxdyno_power_reading_watts{meter="manual",state="off"}`},
	} {
		c := collect(t, &Machine{Ask: Ask{Reading: typed}}, newReading)
		equal(t, typed, values(t, c), map[string]float64{want.series: want.watts})
	}
	for _, typed := range []string{"much", "W", "idle 5 W", "5V"} {
		if c, err := newReading(t.Context(), &Machine{Ask: Ask{Reading: typed}}); err == nil {
			t.Errorf("%q: %v", typed, prom(c.Series()[0]))
		}
	}
}
