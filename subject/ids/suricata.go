// SPDX-License-Identifier: Apache-2.0

package ids

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"boxdyno/host"
	"boxdyno/subject"
	"boxdyno/subject/capture"
)

// Suricata runs with a configuration of ours; what is not in it has Suricata's own default,
// memory caps among them. It inspects without looking at checksums, which offloading leaves
// open, leaves the port's offloads as they are, and has no thresholds but those within rules.

// suricataRare is above the three seconds after which its threads add their counts up,
// and the second after which those are written.
const suricataRare = 4500 * time.Millisecond

// tool is the row by which a Capture runs it.
func (s *IDS) tool(v *eve, rules string) *capture.Tool {
	return &capture.Tool{
		Name: "suricata", Work: capture.Application, Unseen: s.Mode == AFXDP,
		Argv:  func(_ *capture.Capture, e capture.Place) ([]string, error) { return s.argv(e, rules) },
		Said:  func(*capture.Capture, subject.Env) (capture.Parser, capture.Parser) { return v.console, v.console },
		Logs:  func() []capture.LogFile { return []capture.LogFile{{Name: "eve.json", Said: v.record, End: v.end}} },
		Fixed: capture.AsItIs, Rare: suricataRare, Grace: capture.SensorGrace, Lag: suricataLag,
	}
}

// suricataLag is above the 10 ms after which it gets a block that is not full.
const suricataLag = 300 * time.Millisecond

// cluster tells its packet sockets from those of others on the same port.
var cluster atomic.Int64

// argv writes the configuration and is the command.
func (s *IDS) argv(e capture.Place, rules string) ([]string, error) {
	config := filepath.Join(e.Dir, "suricata.yaml")
	text := s.config(e, int(int64(os.Getpid())+cluster.Add(1))%65000+1)
	thresholds := filepath.Join(e.Dir, "threshold.config") // without it that of the machine is read
	if rules == "" {
		rules = filepath.Join(e.Dir, "none.rules")
		if err := os.WriteFile(rules, nil, 0o644); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(thresholds, nil, 0o644); err != nil {
		return nil, err
	}
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		return nil, err
	}
	return []string{"suricata", "-c", config, "-S", rules, "-l", e.Dir, "--" + s.Mode + "=" + e.Port.Name, "--runmode", s.RunMode, "-k", "none"}, nil
}

// detecting is how many threads detect.
func (s *IDS) detecting(e subject.Env) int {
	switch {
	case s.RunMode == Single:
		return 1
	case s.Threads > 0:
		return s.Threads
	case s.Mode == AFXDP:
		return 1
	case len(e.CPUs) > 0:
		return len(e.CPUs)
	}
	return runtime.NumCPU() // that this process may use: so may its children
}

// capturing is how many threads have a packet socket.
func (s *IDS) capturing(e subject.Env) int {
	if s.RunMode == AutoFP {
		return 1
	}
	return s.detecting(e)
}

const suricataConfig = `%YAML 1.1
---
vars:
  address-groups: {HOME_NET: any, EXTERNAL_NET: any, HTTP_SERVERS: any, SMTP_SERVERS: any, SQL_SERVERS: any, DNS_SERVERS: any, TELNET_SERVERS: any, AIM_SERVERS: any, DC_SERVERS: any, DNP3_SERVER: any, DNP3_CLIENT: any, MODBUS_CLIENT: any, MODBUS_SERVER: any, ENIP_CLIENT: any, ENIP_SERVER: any}
  port-groups: {HTTP_PORTS: "80", SHELLCODE_PORTS: "!80", ORACLE_PORTS: "1521", SSH_PORTS: "22", DNP3_PORTS: "20000", MODBUS_PORTS: "502", FILE_DATA_PORTS: "[80,110,143]", FTP_PORTS: "21", GENEVE_PORTS: "6081", VXLAN_PORTS: "4789", TEREDO_PORTS: "3544"}
outputs:
  - eve-log: {enabled: yes, filetype: regular, filename: eve.json, types: [alert: {metadata: no, payload: no, packet: no, http-body: no}, stats: {totals: yes, threads: no, deltas: no}]}
stats: {enabled: yes, interval: 1, decoder-events: no}
logging:
  default-log-level: info
  default-log-format: "%S: %M"
  outputs: [console: {enabled: yes, format: "%d: %S: "}]
capture: {disable-offloading: no}
app-layer:
  protocols:
    http: {enabled: yes}
    http2: {enabled: yes}
    tls: {enabled: yes, detection-ports: {dp: 443}}
    smtp: {enabled: yes, mime: {decode-mime: yes, decode-base64: yes, decode-quoted-printable: yes, header-value-depth: 2000}}
    dns: {udp: {enabled: yes, detection-ports: {dp: 53}}, tcp: {enabled: yes, detection-ports: {dp: 53}}}
    dcerpc: {enabled: yes}
    ftp: {enabled: yes}
    ssh: {enabled: yes}
    smb: {enabled: yes, detection-ports: {dp: "139, 445"}}
    nfs: {enabled: yes}
    tftp: {enabled: yes}
    krb5: {enabled: yes}
    snmp: {enabled: yes}
    sip: {enabled: yes}
    ntp: {enabled: yes}
    dhcp: {enabled: yes}
    ike: {enabled: yes}
    rdp: {enabled: yes}
    rfb: {enabled: yes, detection-ports: {dp: "5900, 5901, 5902"}}
    mqtt: {enabled: yes}
    quic: {enabled: yes}
    telnet: {enabled: yes}
    imap: {enabled: detection-only}
`

// config is suricata.yaml. JSON strings are YAML strings.
func (s *IDS) config(e capture.Place, cluster int) string {
	var b strings.Builder
	b.WriteString(suricataConfig)
	q, n := strconv.Quote, s.detecting(e.Env)
	for _, key := range []string{"classification", "reference"} {
		const settings = "/etc/suricata"
		if name := filepath.Join(settings, key+".config"); exists(name) {
			fmt.Fprintf(&b, "%s-file: %s\n", map[string]string{"classification": "classification", "reference": "reference-config"}[key], name)
		}
	}
	fmt.Fprintf(&b, "threshold-file: %s\n", q(filepath.Join(e.Dir, "threshold.config")))
	if control := controlPath(e.Dir); s.Mode == AFPacket && control != "" {
		fmt.Fprintf(&b, "unix-command: {enabled: yes, filename: %s}\n", q(control))
	} else {
		b.WriteString("unix-command: {enabled: no}\n")
	}
	capturing := s.capturing(e.Env)
	if s.RunMode == AutoFP {
		// Its detecting threads are this share of all CPUs of the machine, cut off.
		fmt.Fprintf(&b, "threading: {set-cpu-affinity: no, detect-thread-ratio: %.4f}\n", (float64(n)+0.01)/float64(onlineCPUs()))
	}
	if s.Mode == AFXDP {
		fmt.Fprintf(&b, "af-xdp:\n  - {interface: %s, threads: %d, disable-promisc: no, force-xdp-mode: none, force-bind-mode: none, enable-busy-poll: no}\n", q(e.Port.Name), capturing)
		return b.String()
	}
	fmt.Fprintf(&b, "af-packet:\n  - {interface: %s, threads: %d, cluster-id: %d, cluster-type: cluster_flow, defrag: no, use-mmap: yes, tpacket-v3: yes, ring-size: %d, block-size: %d, block-timeout: 10, checksum-checks: no",
		q(e.Port.Name), capturing, cluster, s.Ring, s.Block)
	if s.Filter != "" {
		fmt.Fprintf(&b, ", bpf-filter: %s", q(s.Filter))
	}
	b.WriteString("}\n")
	return b.String()
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// onlineCPUs are those of the machine, as Suricata counts them.
func onlineCPUs() int {
	text, _ := os.ReadFile("/sys/devices/system/cpu/online")
	return cmp.Or(len(host.ParseCPUs(string(text))), runtime.NumCPU())
}

var suricataVersion = regexp.MustCompile(`This is Suricata version (\d+)\.\S+`)

// suricata checks that a Suricata is there whose output is known, and built for what is
// asked.
func (s *IDS) suricata(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	local := &host.Local{}
	if host.Has("suricata") != nil {
		return suricataMissing(ctx, "the program suricata")
	}
	info, err := local.Run(ctx, "", "suricata", "--build-info")
	if err != nil {
		return err
	}
	m := suricataVersion.FindStringSubmatch(string(info))
	if m == nil {
		return fmt.Errorf("suricata --build-info does not say which version it is: %.80q", info)
	}
	if major, _ := strconv.Atoi(m[1]); major < 7 {
		return suricataMissing(ctx, "Suricata 7 ("+strings.TrimPrefix(m[0], "This is ")+" is installed)")
	}
	support := map[string]string{AFPacket: "AF_PACKET", AFXDP: "AF_XDP"}[s.Mode]
	if !regexp.MustCompile(support + ` support:\s+yes`).Match(info) {
		return fmt.Errorf("capture %s: this Suricata was built without it (suricata --build-info)", s.Mode)
	}
	return nil
}

// suricataMissing says how apt of this machine supplies Suricata 7: of the release, or of
// its backports where a source of them is known.
func suricataMissing(ctx context.Context, what string) error {
	policy, _ := (&host.Local{}).Run(ctx, "", "apt-cache", "policy", "suricata") // none: not a Debian
	suite := ""
	if release, err := os.ReadFile("/etc/os-release"); err == nil {
		if m := regexp.MustCompile(`(?m)^VERSION_CODENAME="?([a-z]+)"?$`).FindSubmatch(release); m != nil {
			suite = string(m[1]) + "-backports"
		}
	}
	return suricataRemedy(what, string(policy), suite)
}

// suricataRemedy reads "apt-cache policy suricata".
func suricataRemedy(what, policy, suite string) *host.Missing {
	install := []string{"apt-get", "install", "-y"}
	if suite != "" && strings.Contains(policy, suite) {
		return &host.Missing{What: what, Remedy: [][]string{append(install, "-t", suite, "suricata")}}
	}
	if m := regexp.MustCompile(`Candidate: (?:\d+:)?(\d+)\.`).FindStringSubmatch(policy); m != nil {
		if major, _ := strconv.Atoi(m[1]); major >= 7 {
			return &host.Missing{What: what, Remedy: [][]string{append(install, "suricata")}}
		}
	}
	if suite == "" {
		return &host.Missing{What: what, Hint: "install it as its documentation says"}
	}
	return &host.Missing{What: what, Hint: "the release has none of version 7: add a source of " + suite + " to apt, then run apt-get update and apt-get install -y -t " + suite + " suricata"}
}
