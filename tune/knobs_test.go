// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"flag"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"boxdyno/host"
	"boxdyno/internal/ethtool"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Every knob says what it is, and can be read and written.
func TestAll(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range All {
		if s.Name == "" || s.Doc == "" || s.Values == "" || s.Scope == "" || seen[s.Name] {
			t.Errorf("%+v", s)
		}
		seen[s.Name] = true
		if s.Name != sysctlRow.Name && (s.Read == nil || s.Write == nil || s.Check == nil) {
			t.Errorf("%s cannot be turned", s.Name)
		}
		if s.Check != nil && s.Check("\x00 nonsense") == nil {
			t.Errorf("%s takes anything", s.Name)
		}
	}
	if _, err := Find("ringz"); err == nil || !strings.Contains(err.Error(), "rings, channels") {
		t.Error(err)
	}
}

func TestMasks(t *testing.T) {
	for _, c := range [][3]string{
		{"3", "0", "3"}, {"f", "00", "0f"}, {"1", "00000000,00000000", "00000000,00000001"}, {"1,0", "00000000,00000000", "00000001,00000000"}, {"A", "0", "a"},
	} {
		if got, err := maskLike(c[0], c[1]); err != nil || got != c[2] {
			t.Errorf("%s like %s: %s, %v", c[0], c[1], got, err)
		}
	}
	for _, bad := range []string{"", "g", "1,,2", "123456789", "-1"} {
		if checkMask(bad) == nil {
			t.Errorf("%q is taken for a mask", bad)
		}
	}
	for _, c := range [][2]string{{"0-3,8", "0-3,8"}, {"3,1,2", "1-3"}, {"5", "5"}} {
		if cpus, err := parseCPUs(c[0]); err != nil || formatCPUs(cpus) != c[1] {
			t.Error(c, cpus, err)
		}
	}
	for _, bad := range []string{"", "3-1", "a", "0-99999999", "-1"} {
		if cpus, err := parseCPUs(bad); err == nil {
			t.Errorf("%q is %v", bad, cpus)
		}
	}
}

func TestUniform(t *testing.T) {
	for _, each := range [][]string{{"rx-0=1", "rx-1=1"}, {"rx-0=1", "rx-1=2"}} {
		v := uniform(each)
		for _, e := range each {
			name, want, _ := strings.Cut(e, "=")
			if got, ok := eachOf(v, name); !ok || got != want {
				t.Errorf("%v: %s of %q is %q", each, name, v, got)
			}
		}
	}
	if v, ok := eachOf("rx-0=1 rx-1=2", "rx-2"); ok {
		t.Error(v)
	}
	for v, want := range map[string]bool{"rx-0=1 rx-1=2": true, "rx-0=2 rx-1=1": true, "rx-0=1 rx-1=3": false, "3": false} {
		if got := mixed(v, "1", "2"); got != want {
			t.Errorf("%q is mixed of 1 and 2: %v", v, got)
		}
	}
}

// A feature's text says what it is and what was asked for, and goes back to it.
func TestFeatureText(t *testing.T) {
	state := func(asked, active, can bool) ethtool.Feature {
		return ethtool.Feature{Available: can, Requested: asked, Active: active}
	}
	for _, c := range []struct {
		a, b ethtool.Feature
		text string
	}{
		{state(true, true, true), state(true, true, true), "on"},
		{state(true, false, true), state(true, false, true), "off, asked on"},
		{state(false, false, true), state(false, true, false), "off"}, // b is fixed
		{state(true, true, false), state(false, false, false), "a=on; b=off"},
		{state(true, false, true), state(false, false, true), "a=off, asked on; b=off"},
	} {
		states := map[string]ethtool.Feature{"a": c.a, "b": c.b}
		text := featuresText([]string{"a", "b"}, states)
		if text != c.text {
			t.Errorf("%q, want %q", text, c.text)
		}
		want, err := featuresWanted([]string{"a", "b"}, states, text)
		if !c.a.Available && !c.b.Available {
			if err == nil {
				t.Error("fixed features are set")
			}
			continue
		}
		for f, w := range want {
			if w != states[f].Requested {
				t.Errorf("%q asks %v of %s, which had %v", text, w, f, states[f].Requested)
			}
		}
	}
}

// Fields that are not named stay, those of a whole value go, and limits are the
// driver's.
func TestFields(t *testing.T) {
	r := ethtool.Ring{RxPending: 256, TxPending: 128, RxMaxPending: 4096, TxMaxPending: 512}
	fields := func(r *ethtool.Ring) []field {
		return []field{
			{name: "rx", get: func() *uint32 { return &r.RxPending }, max: func() uint32 { return r.RxMaxPending }},
			{name: "tx", get: func() *uint32 { return &r.TxPending }, max: func() uint32 { return r.TxMaxPending }},
			{name: "rx-mini", get: func() *uint32 { return &r.RxMiniPending }, max: func() uint32 { return r.RxMiniMaxPending }, some: true},
		}
	}
	if err := setFields(fields(&r), "rx=max"); err != nil || fieldsText(fields(&r)) != "rx=4096 tx=128" {
		t.Error(err, fieldsText(fields(&r)))
	}
	for bad, want := range map[string]string{
		"tx=4096": "tx=4096: the driver has at most 512", "rx-mini=1": "rx-mini=1: the driver has at most 0", "zz=1": "there is no zz: there are rx, tx, rx-mini", "rx": `"rx" is not NAME=VALUE`, "rx=-1": "rx=-1: want a number",
	} {
		if err := setFields(fields(&r), bad); err == nil || err.Error() != want {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, s := range []struct{ knob, good, bad string }{
		{"rings", "rx=4096 tx=max", "rx=many"}, {"coalesce", "adaptive-rx=on rx-usecs=30", "adaptive-rx=1"}, {"pause", "autoneg=off rx=off tx=off", "rx=max"}, {"channels", "combined=1", "combined"},
	} {
		spec, err := Find(s.knob)
		if err != nil || spec.Check(s.good) != nil || spec.Check(s.bad) == nil {
			t.Errorf("%s: %v, %v, %v", s.knob, err, spec.Check(s.good), spec.Check(s.bad))
		}
	}
}

// Kernel parameters go where they are, and what must not be written is refused.
func TestSysctl(t *testing.T) {
	for key, scope := range map[string]Scope{
		"net.core.rmem_max": PerMachine, "net.core.netdev_max_backlog": PerMachine, "vm.swappiness": PerMachine, "net.ipv4.ip_forward": PerNetns,
		"net.netfilter.nf_conntrack_max": PerNetns, "net.ipv4.conf.{port}.rp_filter": PerPort,
	} {
		if s, err := Find(sysctlPrefix + key); err != nil || s.Scope != scope {
			t.Errorf("%s: %s, %v", key, s.Scope, err)
		}
	}
	for _, key := range []string{
		"", "kernel.core_pattern", "kernel.modprobe", "kernel.sysrq", "kernel.unprivileged_bpf_disabled", "fs.file-max", "net.ipv6.conf.all.disable_ipv6", "net.ipv4.route.flush",
		"net..core", "net.core/../../../kernel/core_pattern", "net./../../sysrq-trigger", "net.core.rmem max", "../net.x",
	} {
		if s, err := Find(sysctlPrefix + key); err == nil {
			t.Errorf("%s may be tuned", s.Name)
		}
	}
	if p, err := sysctlPath("net.ipv4.conf." + sysctlPort("eth0.100") + ".rp_filter"); err != nil || p != "sys/net/ipv4/conf/eth0.100/rp_filter" {
		t.Error(p, err)
	}
}

// tree is a machine with two CPU clocks, an interrupt for each of two queues of eth0,
// and kernel parameters: a made one.
func tree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"sys/devices/system/cpu/cpufreq/policy0/scaling_governor":            "ondemand\n",
		"sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors": "performance ondemand \n",
		"sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq":            "1500000\n",
		"sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq":            "2400000\n",
		"sys/devices/system/cpu/cpufreq/policy4/scaling_governor":            "performance\n",
		"sys/devices/system/cpu/cpufreq/policy4/scaling_available_governors": "performance ondemand \n",
		"sys/devices/system/cpu/cpufreq/policy4/scaling_max_freq":            "1800000\n",
		"sys/devices/system/cpu/cpufreq/policy4/cpuinfo_max_freq":            "2600000\n",
		"sys/devices/pci0/msi_irqs/38":                                       "msix\n",
		"sys/devices/pci0/msi_irqs/104":                                      "msix\n",
		"sys/devices/pci0/virtio2/net/eth0/mtu":                              "1500\n",
		"sys/class/net/keep":                                                 "",
		"proc/irq/38/smp_affinity_list":                                      "0-1\n",
		"proc/irq/104/smp_affinity_list":                                     "1\n",
		"proc/sys/net/ipv4/tcp_rmem":                                         "4096\t131072\t6291456\n",
		"proc/cmdline":                                                       "console=ttyS0 mitigations=off quiet\n",
	} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"sys/class/net/eth0":                       "../../devices/pci0/virtio2/net/eth0",
		"sys/devices/pci0/virtio2/net/eth0/device": "../../../virtio2",
	} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// What a test machine lacks is written to a made tree, and put back byte for byte.
func TestTree(t *testing.T) {
	root := tree(t)
	tn := New()
	tn.root, tn.dirs = root, []string{t.TempDir()}
	tn.world.index = func(Site) (int, error) { return 2, nil }
	r := recipeOf(t, [][2]string{{"governor", "performance"}, {"max-frequency", "max"}, {"irq-affinity", "spread"}, {"sysctl:net.ipv4.tcp_rmem", "4096 1 2"}, {"mitigations", "auto"}})
	a, settings, err := tn.Apply(t.Context(), r, On{Host: &host.Local{}, Ports: []string{"eth0"}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range settings {
		got = append(got, s.Knob+" of "+s.Target+": "+s.Before+" -> "+s.Got+" "+s.Problem)
	}
	cpus, err := presentCPUs()
	if err != nil {
		t.Fatal(err)
	}
	spread := "38=0 104=1"
	if cpus == 1 {
		spread = "0"
	}
	want := []string{
		"governor of host: policy0=ondemand policy4=performance -> performance ",
		"max-frequency of host: policy0=1500000 policy4=1800000 -> policy0=2400000 policy4=2600000 ",
		"irq-affinity of eth0: 38=0-1 104=1 -> " + spread + " ",
		"sysctl:net.ipv4.tcp_rmem of namespace: 4096\t131072\t6291456 -> 4096\t1\t2 ",
		"mitigations of host: off -> off not supported while the kernel runs: put mitigations= on its command line",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	read := func() (all []string) {
		for _, glob := range []string{"sys/devices/system/cpu/cpufreq/*/*", "proc/irq/*/*", "proc/sys/net/*/*"} {
			names, _ := filepath.Glob(filepath.Join(root, glob))
			for _, n := range names {
				text, err := os.ReadFile(n)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, strings.TrimPrefix(n, root)+" "+string(text))
			}
		}
		return all
	}
	if !slices.Contains(read(), "/sys/devices/system/cpu/cpufreq/policy4/scaling_max_freq 2600000\n") {
		t.Error(read())
	}
	if _, err := a.Revert(t.Context(), Revert{}); err != nil {
		t.Error(err)
	}
	root, after := tree(t), read()
	if d := cmp.Diff(read(), after); d != "" {
		t.Errorf("not as before: %s", d)
	}
	if _, _, err := tn.Apply(t.Context(), recipeOf(t, [][2]string{{"governor", "turbo"}}), On{Host: &host.Local{}}, Options{Strict: true}); err == nil || !strings.Contains(err.Error(), "no governor turbo: it has performance ondemand") {
		t.Error(err)
	}
}

// irqbalance is started and stopped by a program called systemctl: here a stand-in.
func TestIrqbalance(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\ncase $1 in\nshow) echo LoadState=$(cat " + dir + "/load); echo ActiveState=$(cat " + dir + "/state);;\nstart) echo active > " + dir + "/state;;\nstop) echo inactive > " + dir + "/state;;\nesac\n"
	for name, text := range map[string]string{"systemctl": script, "load": "loaded", "state": "active"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	tn := New()
	tn.dirs = []string{t.TempDir()}
	a, settings, err := tn.Apply(t.Context(), recipeOf(t, [][2]string{{"irqbalance", "off"}}), here, Options{})
	if err != nil || settings[0].Got != "off" || settings[0].Before != "on" {
		t.Fatalf("%+v, %v", settings, err)
	}
	if _, err := a.Revert(t.Context(), Revert{}); err != nil {
		t.Error(err)
	}
	if state, _ := os.ReadFile(dir + "/state"); string(state) != "active\n" {
		t.Errorf("%q", state)
	}
	if err := os.WriteFile(dir+"/load", []byte("not-found"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, settings, err = tn.Apply(t.Context(), recipeOf(t, [][2]string{{"irqbalance", "off"}}), here, Options{}); err != nil || !strings.Contains(settings[0].Problem, "apt-get install -y irqbalance") {
		t.Errorf("%+v, %v", settings, err)
	}
}

// The files of every recipe that comes with boxdyno.
func TestExport(t *testing.T) {
	mac, _ := net.ParseMAC("02:00:00:00:00:01")
	ports := []ExportPort{{Name: "eth0", MAC: mac}, {Name: "en-p1.7"}}
	all, err := Recipes()
	if err != nil {
		t.Fatal(err)
	}
	r := all[0]
	r.Name = "other"
	r.Steps = []Step{{Knob: "rps", Target: ForPorts, Value: "5"}, {Knob: "irq-affinity", Target: "eth0", Value: "spread"}, {Knob: "qdisc", Target: ForPorts, Value: "fq_codel"}, {Knob: "mtu", Target: "eth0", Value: "9000"}, {Knob: "max-frequency", Target: ForHost, Value: "max"}, {Knob: "mitigations", Target: ForHost, Value: "off"}}
	for _, r := range append(all, r) {
		files, notes, err := Export(r, ports)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, f := range files {
			b.WriteString("==> " + f.Path + "\n" + f.Text + "\n")
		}
		for _, n := range notes {
			b.WriteString("note: " + n + "\n")
		}
		if strings.Contains(b.String(), "rps_cpus; do echo") { // of the machine that the test runs on
			m, _ := maskLike("all", "")
			b2 := strings.ReplaceAll(b.String(), "do echo "+m+" >", "do echo MASK >")
			b.Reset()
			b.WriteString(b2)
		}
		golden(t, "testdata/export/"+r.Name+".txt", b.String())
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		_ = os.WriteFile(name+".got", []byte(got), 0o644)
		t.Errorf("%s (with -update it is written anew): %s", name, d)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"name: x\nsteps: [{knob: rings, value: rx=a}]":                                    "r.yaml:2:30: rings: rx=a: want a number",
		"name: x\nsteps: [{knob: ring, value: rx=1}]":                                     "r.yaml:2:10: there is no knob \"ring\"",
		"name: x\nsteps: [{knob: rings, target: host, value: rx=1}]":                      "r.yaml:2:31: rings is one of the port: its target cannot be host",
		"name: x\nsteps: [{knob: gro, value: on}, {knob: gro, target: eth0, value: off}]": "gro for eth0 stands here a second time",
		"name: x\nsteps: [{knob: gro, target: \"a;reboot\", value: off}]":                 "target \"a;reboot\" is no name of a port",
		"steps: []":                     "name is missing",
		"name: x":                       "steps are missing",
		"name: a/b\nsteps: []":          "is not one word",
		"name: x\nsteps: [{knob: gro}]": "value is missing",
	} {
		if _, err := Parse("r.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestAblate(t *testing.T) {
	r := Recipe{Name: "r", Steps: []Step{{Knob: "gro", Target: ForPorts, Value: "on"}, {Knob: "mtu", Target: "a", Value: "1400"}, {Knob: "mtu", Target: "b", Value: "1400"}}}
	var got []string
	for _, a := range Ablate(r) {
		var steps []string
		for _, s := range a.Steps {
			steps = append(steps, s.Knob+s.Target)
		}
		got = append(got, a.Name+": "+strings.Join(steps, " "))
	}
	want := []string{
		"full: gro{port} mtua mtub", "none: ", "without gro: mtua mtub", "without mtu a: gro{port} mtub", "without mtu b: gro{port} mtua",
		"only gro: gro{port}", "only mtu a: mtua", "only mtu b: mtub",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := Ablate(Recipe{Name: "one", Steps: r.Steps[:1]}); len(got) != 2 {
		t.Errorf("of one step there are %d", len(got))
	}
}
