// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
)

// An app is one application of the mix.
type app struct {
	name  string
	rate  float64 // flows a second at 1 Gbit/s
	port  uint16  // the server's
	udp   bool
	sized bool // what it transfers has the mix's distribution of sizes
	plan  func(p *planner)
}

// The applications, in the order of Shape.Classes.
const (
	appDNS = iota
	appBrowsing
	appGet
	appPost
	appExchange
	appHTTPS
	appOracle
	appCitrix
	appSIP
	appVideo
	appSMTP
	appPOP
	appRTP
)

var apps = [...]app{
	appDNS:      {name: "dns", rate: 1975, port: 53, udp: true, plan: planDNS},
	appBrowsing: {name: "browsing", rate: 710, port: 80, sized: true, plan: planBrowsing},
	appGet:      {name: "get", rate: 405, port: 80, sized: true, plan: planGet},
	appPost:     {name: "post", rate: 405, port: 80, sized: true, plan: planPost},
	appExchange: {name: "exchange", rate: 254, port: 135, plan: planExchange},
	appHTTPS:    {name: "https", rate: 131, port: 443, sized: true, plan: planHTTPS},
	appOracle:   {name: "oracle", rate: 79, port: 1521, plan: planOracle},
	appCitrix:   {name: "citrix", rate: 44, port: 1494, plan: planCitrix},
	appSIP:      {name: "sip", rate: 29, port: 5060, udp: true, plan: planSIP},
	appVideo:    {name: "video", rate: 12, port: 16400, udp: true, plan: planVideo},
	appSMTP:     {name: "smtp", rate: 22, port: 25, sized: true, plan: planSMTP},
	appPOP:      {name: "pop", rate: 14, port: 110, sized: true, plan: planPOP},
	appRTP:      {name: "rtp", rate: 5, port: 16384, udp: true, plan: planRTP},
}

// A planner writes down who says what in a flow.
type planner struct {
	f   *flow
	u   float64 // quantile of the size of what is transferred
	mtu int
	pcg rand.PCG
	r   *rand.Rand
}

const (
	client = 0
	server = 1

	milli = 1_000_000 // ns

	quickACKs = 16 // TCP_MAX_QUICKACKS of net/ipv4/tcp_input.c
)

// begin plans flow k of application a into f, whose memory is used again and whose
// ends are set; what it says depends on nothing but that and the arguments.
func (p *planner) begin(f *flow, seed, k uint64, u float64, a, alert int) {
	p.pcg.Seed(seed, k)
	p.r = rand.New(&p.pcg)
	p.f, p.u = f, u
	*f = flow{ends: f.ends, v6: f.v6, app: uint8(a), alert: int8(alert), k: k, msgs: f.msgs[:0], window: 10, quick: [2]int{quickACKs, quickACKs}}
	f.rng = max(p.r.Uint64(), 1)
	f.salt = p.r.Uint32()
	f.seq = [2]uint32{p.r.Uint32(), p.r.Uint32()}
	f.ipID = [2]uint16{uint16(p.r.Uint32()), uint16(p.r.Uint32())}
	f.rtt = p.between(5*milli, 40*milli)
	f.mss = p.mtu - ip4Len - tcpLen
	if f.v6 {
		f.mss = p.mtu - ip6Len - tcpLen
	}
	if alert >= 0 {
		alerts[alert].plan(p)
		return
	}
	apps[a].plan(p)
}

// between draws from lo to hi-1.
func (p *planner) between(lo, hi int) uint64 { return uint64(lo + p.r.IntN(hi-lo)) }

// say adds a message, to be sent wait after the one before.
func (p *planner) say(from int, wait uint64, head []byte) *message {
	p.f.msgs = append(p.f.msgs, message{from: from, wait: wait, head: head})
	return &p.f.msgs[len(p.f.msgs)-1]
}

func (p *planner) sayf(from int, wait uint64, format string, args ...any) *message {
	return p.say(from, wait, fmt.Appendf(nil, format, args...))
}

// marked says that a rule matches the message up to the last octet of its head.
func (m *message) marked() { m.mark = len(m.head) }

// size is what the flow transfers, octets.
func (p *planner) size() int { return transferSize(p.u) }

// transferSize is the quantile u of the distribution of sizes.
func transferSize(u float64) int {
	const median, sigma, tail, alpha, most = 12_000, 1.6, 0.99, 1.2, 10_000_000
	quantile := func(u float64) float64 { return median * math.Exp(sigma*math.Sqrt2*math.Erfinv(2*u-1)) }
	size := quantile(min(u, tail))
	if u > tail {
		size *= math.Pow((1-tail)/(1-u), 1/alpha)
	}
	return int(min(max(size, 64), most))
}

var words = [...]string{
	"alder", "birch", "cedar", "maple", "hazel", "linden", "willow", "poplar", "spruce", "larch", "rowan", "elm", "oak",
	"beech", "ash", "juniper", "river", "meadow", "harbour", "valley", "summit", "island", "forest", "garden", "bridge",
	"market", "station", "castle", "window", "letter", "number", "paper", "silver", "copper", "amber", "violet",
}

func (p *planner) word() string { return words[p.r.IntN(len(words))] }

// host is a name below the top-level domain that is kept for examples (RFC 2606).
func (p *planner) host() string {
	return fmt.Sprintf("%s%d.%s.example", p.word(), p.r.IntN(100), p.word())
}

// A filling is what a message's body consists of.
type filling uint8

const (
	text    filling = iota // words in lines of at most 76 characters
	noise                  // octets that look random
	records                // TLS records of application data
	media                  // noise behind a header of RTP
)

const fillingLen = 1 << 16

var fillings = sync.OnceValue(func() (f [2][]byte) {
	r := rand.New(rand.NewPCG(1, 2))
	line := 0
	for len(f[text]) < fillingLen {
		w := words[r.IntN(len(words))]
		if line+len(w)+1 > 74 {
			f[text] = append(f[text], "\r\n"...)
			line = 0
		}
		f[text] = append(append(f[text], w...), ' ')
		line += len(w) + 1
	}
	copy(f[text][fillingLen-2:], "\r\n")
	f[text] = f[text][:fillingLen]
	for range fillingLen / 8 {
		f[noise] = binary.BigEndian.AppendUint64(f[noise], r.Uint64())
	}
	return f
})

// Octets of a full TLS record: header 5, content 2^14, its type and tag 17.
const recordLen = 5 + 1<<14 + 17

// fill writes the octets of a body of total octets from off on.
func (k filling) fill(b []byte, salt uint32, off, total int) {
	table := fillings()[min(k, noise)]
	for n, at := 0, (int(salt%fillingLen)+off)%fillingLen; n < len(b); at = 0 {
		n += copy(b[n:], table[at:])
	}
	if k != records {
		return
	}
	for start := off - off%recordLen; start < off+len(b); start += recordLen {
		n := min(recordLen, total-start) - 5
		header := [5]byte{23, 3, 3, byte(n >> 8), byte(n)}
		for i, v := range header {
			if at := start + i - off; at >= 0 && at < len(b) {
				b[at] = v
			}
		}
	}
}
