// SPDX-License-Identifier: Apache-2.0

package frame

import "encoding/binary"

// DNS, HTTP and TLS of the application mix.

func planDNS(p *planner) { p.dns(p.host()) }

// dns asks for a name's IPv4 address and gets one.
func (p *planner) dns(name string) {
	q := []byte{byte(p.f.salt >> 8), byte(p.f.salt), 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for label := 0; label <= len(name); {
		end := label
		for end < len(name) && name[end] != '.' {
			end++
		}
		q = append(append(q, byte(end-label)), name[label:end]...)
		label = end + 1
	}
	q = append(q, 0, 0, 1, 0, 1)
	p.say(client, 0, q)
	a := append([]byte(nil), q...)
	a[2], a[3], a[7] = 0x81, 0x80, 1
	a = append(a, 0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 198, 51, 100, byte(p.f.salt>>16)) // RFC 5737
	p.say(server, p.between(milli/5, 20*milli), a)
}

const (
	browser = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
	plain   = "text/html; charset=utf-8"
	octets  = "application/octet-stream"
)

// ask is a request of HTTP without body; extra are further header lines.
func (p *planner) ask(wait uint64, path, agent, extra string) *message {
	return p.sayf(client, wait, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\n%sAccept: */*\r\nAccept-Language: en\r\n\r\n",
		path, p.host(), agent, extra)
}

// answer is one of HTTP, with head before a body of n octets more.
func (p *planner) answer(kind string, n int, head string) *message {
	m := p.sayf(server, p.between(milli, 30*milli),
		"HTTP/1.1 200 OK\r\nServer: httpd\r\nContent-Type: %s\r\nContent-Length: %d\r\nCache-Control: max-age=60\r\n\r\n%s", kind, len(head)+n, head)
	m.body = n
	if kind == octets {
		m.kind = noise
	}
	return m
}

// planBrowsing loads a page and what belongs to it over one connection.
func planBrowsing(p *planner) {
	left := p.size()
	parts := 1 + p.r.IntN(7)
	for i := range parts {
		n := left / (parts - i)
		left -= n
		path, kind := "/"+p.word()+"/", plain
		if i > 0 {
			path, kind = "/img/"+p.word()+".bin", octets
		}
		p.ask(p.between(milli, 60*milli), path, browser, "")
		p.answer(kind, max(n, 1), "")
	}
}

func planGet(p *planner) {
	p.ask(0, "/files/"+p.word()+".bin", browser, "")
	p.answer(octets, p.size(), "")
}

func planPost(p *planner) {
	n := p.size()
	p.sayf(client, 0, "POST /store/%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		p.word(), p.host(), browser, octets, n)
	m := &p.f.msgs[0]
	m.body, m.kind = n, noise
	p.answer(plain, 120, "")
}

// planHTTPS is TLS 1.3 (RFC 8446) with a request and its answer.
func planHTTPS(p *planner) {
	p.say(client, 0, p.clientHello(p.host()))
	hello := []byte{3, 3}
	hello = p.noise(hello, 32)
	hello = append(append(hello, 32), p.session()...)
	hello = append(hello, 0x13, 1, 0)
	hello = vector16(hello, func(b []byte) []byte {
		b = append(b, 0, 43, 0, 2, 3, 4)          // supported_versions: 1.3
		b = append(b, 0, 51, 0, 36, 0, 29, 0, 32) // key_share: x25519
		return p.noise(b, 32)
	})
	b := handshake(2, hello)
	b = append(b, 20, 3, 3, 0, 1, 1) // change_cipher_spec
	m := p.say(server, p.between(milli, 5*milli), b)
	m.kind, m.body = records, int(p.between(2200, 4200)) // extensions, certificates, Finished
	finished := []byte{20, 3, 3, 0, 1, 1, 23, 3, 3, 0, 53}
	p.say(client, p.between(milli, 3*milli), p.noise(finished, 53))
	m = p.say(client, p.between(milli/10, milli), nil)
	m.kind, m.body = records, int(p.between(200, 700))
	m = p.say(server, p.between(milli, 30*milli), nil)
	m.kind, m.body = records, p.size()+300
}

// session is the legacy session identifier, which the server echoes.
func (p *planner) session() []byte { return p.filled(7, 32) }

func (p *planner) clientHello(name string) []byte {
	b := []byte{3, 3}
	b = p.noise(b, 32)
	b = append(append(b, 32), p.session()...)
	b = append(b, 0, 6, 0x13, 1, 0x13, 2, 0x13, 3) // cipher suites
	b = append(b, 1, 0)                            // no compression
	b = vector16(b, func(b []byte) []byte {
		b = vector16(append(b, 0, 0), func(b []byte) []byte { // server_name
			return vector16(b, func(b []byte) []byte {
				return vector16(append(b, 0), func(b []byte) []byte { return append(b, name...) })
			})
		})
		b = append(b, 0, 10, 0, 4, 0, 2, 0, 29)                                      // supported_groups: x25519
		b = append(b, 0, 13, 0, 8, 0, 6, 4, 3, 8, 4, 8, 5)                           // signature_algorithms
		b = append(b, 0, 16, 0, 11, 0, 9, 8, 'h', 't', 't', 'p', '/', '1', '.', '1') // ALPN
		b = append(b, 0, 43, 0, 3, 2, 3, 4)                                          // supported_versions
		b = append(b, 0, 45, 0, 2, 1, 1)                                             // psk_key_exchange_modes
		b = append(b, 0, 51, 0, 38, 0, 36, 0, 29, 0, 32)                             // key_share
		return p.noise(b, 32)
	})
	return handshake(1, b)
}

// handshake is a TLS record with one handshake message.
func handshake(kind byte, body []byte) []byte {
	n := len(body)
	b := []byte{22, 3, 1, byte((n + 4) >> 8), byte(n + 4), kind, 0, byte(n >> 8), byte(n)}
	return append(b, body...)
}

// vector16 appends what add does, behind its length in 2 octets.
func vector16(b []byte, add func([]byte) []byte) []byte {
	at := len(b)
	b = add(append(b, 0, 0))
	binary.BigEndian.PutUint16(b[at:], uint16(len(b)-at-2))
	return b
}

// noise appends n random octets.
func (p *planner) noise(b []byte, n int) []byte {
	for range n {
		b = append(b, byte(p.r.Uint32()))
	}
	return b
}

// filled is n octets of the flow's own noise, the same for the same which.
func (p *planner) filled(which uint32, n int) []byte {
	b := make([]byte, n)
	noise.fill(b, p.f.salt+which*1000, 0, n)
	return b
}
