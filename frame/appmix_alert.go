// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"fmt"
	"io"
)

// An Alert is one kind of flow that a rule of an IDS matches, once a flow.
type Alert struct {
	SID     int    // of our rule; ours begin at FirstSID
	Name    string // the rule's message
	App     string // the flow's application
	Pattern string // octets that the flow has once, and no other flow has
	Rule    string // in Suricata's language (version 5 and above)
	Known   int    // sid of a rule of a public set that looks for the same; 0: none
}

// FirstSID is the sid of the first rule of Alerts.
const FirstSID = 9_000_001

type alert struct {
	app           int
	name, pattern string
	proto, match  string // of the rule
	known         int
	plan          func(p *planner)
}

var alerts = [...]alert{
	{
		app: appGet, name: "EICAR test file over HTTP", pattern: eicar, proto: "http",
		match: `flow:established,to_client; file.data; content:"` + eicar + `"; fast_pattern;`,
		plan:  func(p *planner) { p.download("/eicar.com", `X5O!P%@AP[4\PZX54(P^)7CC)7}$`+eicar) },
	},
	{
		app: appGet, name: "Shellshock in a request header", pattern: "() { :;};", proto: "http", known: 2019232,
		match: `flow:established,to_server; http.header; content:"() { |3a 3b|}|3b|"; fast_pattern;`,
		plan:  func(p *planner) { p.attack("/cgi-bin/status", browser, "Referer: () { :;}; /bin/true\r\n") },
	},
	{
		app: appGet, name: "id check returned root", pattern: "uid=0(root) gid=0(root)", proto: "http", known: 2100498,
		match: `flow:established,to_client; file.data; content:"uid=0|28|root|29| gid=0|28|root|29|"; fast_pattern;`,
		plan:  func(p *planner) { p.download("/run", "uid=0(root) gid=0(root) groups=0(root)\n") },
	},
	{
		app: appGet, name: "UNION SELECT in a URI", pattern: "UNION%20SELECT", proto: "http", known: 2006446,
		match: `flow:established,to_server; http.uri.raw; content:"UNION%20SELECT"; fast_pattern;`,
		plan: func(p *planner) {
			p.attack("/item?id=1%20UNION%20SELECT%20name,secret%20FROM%20users", browser, "")
		},
	},
	{
		app: appGet, name: "user agent BlackSun", pattern: "BlackSun", proto: "http", known: 2008983,
		match: `flow:established,to_server; http.user_agent; content:"BlackSun"; fast_pattern;`,
		plan:  func(p *planner) { p.attack("/", "BlackSun", "") },
	},
	{
		app: appGet, name: "passwd over HTTP", pattern: passwd, proto: "http", known: 2002034,
		match: `flow:established,to_client; file.data; content:"root|3a|x|3a|0|3a|0|3a|root|3a|/root|3a|/"; fast_pattern;`,
		plan:  func(p *planner) { p.download("/show", passwd+"bin/sh\n") },
	},
	{
		app: appDNS, name: "DNS query for 3322.org", pattern: "\x043322\x03org\x00\x00\x01\x00\x01", proto: "dns", known: 2012171,
		match: `dns.query; content:".3322.org"; fast_pattern;`,
		plan: func(p *planner) {
			p.dns(p.word() + ".3322.org")
			p.f.msgs[0].marked()
		},
	},
	{
		app: appSIP, name: "SIP scanner", pattern: "User-Agent: friendly-scanner", proto: "udp", known: 2011716,
		match: `content:"|0d 0a|User-Agent|3a| friendly-scanner|0d 0a|"; fast_pattern;`,
		plan:  func(p *planner) { p.dialog("friendly-scanner").request("OPTIONS", 1, 0, false).marked() },
	},
	{
		app: appSMTP, name: "executable attached to a mail", pattern: `filename="invoice.exe"`, proto: "smtp", known: 2003325,
		match: `flow:established,to_server; content:"filename=|22|invoice.exe|22|"; fast_pattern;`,
		plan: func(p *planner) {
			p.smtp("Content-Type: application/octet-stream\r\nContent-Disposition: attachment; filename=\"invoice.exe\"\r\n", 4000, true)
		},
	},
}

const (
	eicar  = "EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"
	passwd = "root:x:0:0:root:/root:/"
)

// attack is a request that a rule matches.
func (p *planner) attack(path, agent, extra string) {
	p.ask(0, path, agent, extra).marked()
	p.answer(plain, 512, "")
}

// download fetches a file that a rule matches.
func (p *planner) download(path, content string) {
	p.ask(0, path, browser, "")
	p.answer("text/plain", 200, content).marked()
}

// Alerts are the kinds of flow with which an AppMix's AlertShare is made up, each
// as often as any other.
func Alerts() []Alert {
	out := make([]Alert, len(alerts))
	for i := range alerts {
		a := &alerts[i]
		out[i] = Alert{SID: FirstSID + i, Name: a.name, App: apps[a.app].name, Pattern: a.pattern, Known: a.known}
		out[i].Rule = fmt.Sprintf(`alert %s any any -> any any (msg:"boxdyno %s"; %s sid:%d; rev:1;)`, a.proto, a.name, a.match, out[i].SID)
	}
	return out
}

// WriteRules writes the rules of Alerts as a file that Suricata loads.
func WriteRules(w io.Writer) error {
	for _, a := range Alerts() {
		if _, err := fmt.Fprintln(w, a.Rule); err != nil {
			return fmt.Errorf("write rules: %w", err)
		}
	}
	return nil
}
