// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"fmt"
	"net/netip"
	"strings"
)

// Calls of the application mix: SIP, RTP, video.

// The server's port of voice, and RTP's payload types (RFC 3551).
const (
	voicePort = 16384
	typeG711  = 0
	typeG729  = 18
	typeH264  = 96
)

// planSIP is a call: it is set up (RFC 3261), speaks by G.729 for 12 to 30 s, and
// ends.
func planSIP(p *planner) {
	d := p.dialog("softphone/1.0")
	d.request("INVITE", 1, 0, true)
	d.response(1, "INVITE", "100 Trying", 2*milli, false)
	d.response(1, "INVITE", "180 Ringing", p.between(20*milli, 80*milli), false)
	d.response(1, "INVITE", "200 OK", p.between(300*milli, 1500*milli), true)
	d.request("ACK", 1, milli, false)
	p.media(typeG729, 20, 0, 20*milli, int(p.between(12_000, 30_000))*2/20)
	d.request("BYE", 2, 5*milli, false)
	d.response(2, "BYE", "200 OK", 2*milli, false)
}

// media says n datagrams of RTP, in turn from both sides, each of which sends one
// every so many ns: size octets, up to vary of them fewer.
func (p *planner) media(kind byte, size, vary int, every uint64, n int) {
	m := p.say(client, milli, append([]byte{0x80, kind}, make([]byte, 10)...))
	m.kind, m.body, m.vary, m.times, m.every = media, size, vary, n, every/2
}

func planRTP(p *planner) { p.media(typeG711, 160, 0, 20*milli, int(p.between(12_000, 30_000))*2/20) }

// planVideo is 3 to 6 s of a conference, 1.2 Mbit/s each way, in small slices as
// for a network that loses packets.
func planVideo(p *planner) {
	p.media(typeH264, 640, 520, 3*milli, int(p.between(3000, 6000))*2/3)
}

// A dialog is what the messages of one SIP call have in common.
type dialog struct {
	p                    *planner
	caller, callee, call string
	agent                string
	media                [2]string // where each side hears: the lines c= and m= of its SDP
	host                 [2]string
}

func (p *planner) dialog(agent string) *dialog {
	d := &dialog{p: p, caller: p.word(), callee: p.word(), agent: agent, call: fmt.Sprintf("%08x%08x", p.f.salt, p.r.Uint32())}
	for i, e := range p.f.ends {
		port, family := e.port, "IP4"
		if i == server {
			port = voicePort
		}
		a := netip.AddrFrom4([4]byte(e.addr[:4]))
		if p.f.v6 {
			a, family = netip.AddrFrom16(e.addr), "IP6"
		}
		d.host[i] = netip.AddrPortFrom(a, e.port).String()
		d.media[i] = fmt.Sprintf("c=IN %s %v\r\nt=0 0\r\nm=audio %d RTP/AVP %d\r\n", family, a, port, typeG729)
	}
	return d
}

func (d *dialog) request(method string, n int, wait uint64, sdp bool) *message {
	return d.message(client, wait, fmt.Sprintf("%s sip:%s@%s SIP/2.0", method, d.callee, d.host[server]), method, n, sdp)
}

func (d *dialog) response(n int, method, status string, wait uint64, sdp bool) {
	d.message(server, wait, "SIP/2.0 "+status, method, n, sdp)
}

func (d *dialog) message(from int, wait uint64, first, method string, n int, sdp bool) *message {
	body, kind := "", ""
	if sdp {
		kind = "Content-Type: application/sdp\r\n"
		body = fmt.Sprintf("v=0\r\no=%s %d 1 IN IP4 192.0.2.1\r\ns=call\r\n%s", d.caller, d.p.f.salt, d.media[from])
	}
	var tag string
	if !strings.HasSuffix(first, "SIP/2.0") || method == "ACK" || method == "BYE" {
		tag = ";tag=b" + d.call[:6]
	}
	return d.p.sayf(from, wait, "%s\r\nVia: SIP/2.0/UDP %s;branch=z9hG4bK%s%d\r\nMax-Forwards: 70\r\nFrom: <sip:%s@%s>;tag=a%s\r\nTo: <sip:%s@%s>%s\r\n"+
		"Call-ID: %s\r\nCSeq: %d %s\r\nUser-Agent: %s\r\nContact: <sip:%s>\r\n%sContent-Length: %d\r\n\r\n%s",
		first, d.host[client], d.call[:8], n, d.caller, d.host[client], d.call[:6], d.callee, d.host[server], tag,
		d.call, n, method, d.agent, d.host[from], kind, len(body), body)
}
