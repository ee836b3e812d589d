// SPDX-License-Identifier: Apache-2.0

package frame

import "encoding/binary"

// MS RPC, Oracle, Citrix and mail of the application mix.

// planExchange binds to Exchange's mailbox interface and calls it some times (DCE
// 1.1 RPC, connection-oriented, version 5.0).
func planExchange(p *planner) {
	mailbox := []byte{0x00, 0xdb, 0xf1, 0xa4, 0x47, 0xca, 0x67, 0x10, 0xb3, 0x1f, 0x00, 0xdd, 0x01, 0x06, 0x62, 0xda, 0, 0, 81, 0}
	ndr := []byte{0x04, 0x5d, 0x88, 0x8a, 0xeb, 0x1c, 0xc9, 0x11, 0x9f, 0xe8, 0x08, 0x00, 0x2b, 0x10, 0x48, 0x60, 2, 0, 0, 0}
	fragments := []byte{0xd0, 0x16, 0xd0, 0x16, 0, 0, 0, 0} // at most 5840 octets each way, no group
	bind := append([]byte(nil), fragments...)
	bind = append(bind, 1, 0, 0, 0, 0, 0, 1, 0)
	bind = append(append(bind, mailbox...), ndr...)
	p.rpc(client, 0, 11, 1, bind, 0)
	ack := append([]byte(nil), fragments...)
	ack = append(ack, 4, 0, '1', '3', '5', 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)
	p.rpc(server, p.between(milli, 5*milli), 12, 1, append(ack, ndr...), 0)
	for call := range 5 + p.r.IntN(8) {
		n := int(p.between(60, 500))
		head := binary.LittleEndian.AppendUint32(nil, uint32(n))
		p.rpc(client, p.between(20*milli, 150*milli), 0, uint32(call+2), append(head, 0, 0, 11, 0), n)
		n = int(p.between(80, 1200))
		head = binary.LittleEndian.AppendUint32(nil, uint32(n))
		p.rpc(server, p.between(milli, 15*milli), 2, uint32(call+2), append(head, 0, 0, 0, 0), n)
	}
}

// rpc says one whole fragment: the common header, head, and n octets of stub data.
func (p *planner) rpc(from int, wait uint64, kind byte, call uint32, head []byte, n int) {
	b := []byte{5, 0, kind, 3, 0x10, 0, 0, 0}
	b = binary.LittleEndian.AppendUint16(b, uint16(16+len(head)+n))
	b = append(b, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, call)
	m := p.say(from, wait, append(b, head...))
	m.kind, m.body = noise, n
}

// planOracle connects to a service and fetches rows (TNS).
func planOracle(p *planner) {
	p.f.rtt = p.between(milli, 10*milli)
	connect := []byte{1, 0x36, 1, 0x2c, 0, 0, 8, 0, 0x7f, 0xff, 0x7f, 8, 0, 0, 0, 1}
	data := "(DESCRIPTION=(CONNECT_DATA=(SERVICE_NAME=" + p.word() + ")(CID=(PROGRAM=sqlplus)(HOST=" + p.word() +
		")(USER=" + p.word() + ")))(ADDRESS=(PROTOCOL=TCP)(HOST=" + p.host() + ")(PORT=1521)))"
	connect = binary.BigEndian.AppendUint16(connect, uint16(len(data)))
	connect = append(connect, 0, 58) // where the data begin
	connect = append(connect, make([]byte, 58-8-len(connect))...)
	p.tns(client, 0, 1, append(connect, data...), 0)
	p.tns(server, p.between(milli, 10*milli), 2, []byte{1, 0x36, 0, 0, 8, 0, 0x7f, 0xff, 1, 0, 0, 0, 0, 32, 0x41, 1, 0, 0, 0, 0, 0, 0, 0, 0}, 0)
	for range 60 + p.r.IntN(120) {
		p.tns(client, p.between(milli, 40*milli), 6, []byte{0, 0, 3, 0x5e}, int(p.between(20, 180)))
		for part := p.r.IntN(8); part >= 7; part-- { // an answer in eight has a packet more
			p.tns(server, p.between(milli, 3*milli), 6, []byte{0, 0, 6}, 2048-11)
		}
		p.tns(server, p.between(milli/5, 10*milli), 6, []byte{0, 0, 6}, int(p.between(30, 250)))
	}
}

// tns says one packet of Oracle's: header, head, and n octets more.
func (p *planner) tns(from int, wait uint64, kind byte, head []byte, n int) {
	b := binary.BigEndian.AppendUint16(nil, uint16(8+len(head)+n))
	b = append(b, 0, 0, kind, 0, 0, 0)
	m := p.say(from, wait, append(b, head...))
	m.body = n
}

// planCitrix is an interactive session: ICA's greeting, keys and mouse one way,
// parts of the screen the other.
func planCitrix(p *planner) {
	p.f.rtt = p.between(milli, 10*milli)
	greeting := []byte{0x7f, 0x7f, 'I', 'C', 'A', 0}
	p.say(server, p.between(milli, 10*milli), greeting)
	p.say(client, p.between(milli, 10*milli), greeting)
	for range 60 + p.r.IntN(120) {
		m := p.say(client, p.between(milli, 50*milli), nil)
		m.kind, m.body = noise, int(p.between(8, 90))
		m = p.say(server, p.between(milli, 10*milli), nil)
		m.kind, m.body = noise, int(p.between(40, 700))
	}
}

// mail are the header lines of a message (RFC 5322).
func (p *planner) mail(from, to, extra string) string {
	return "From: " + from + "\r\nTo: " + to + "\r\nSubject: " + p.word() + " and " + p.word() +
		"\r\nDate: Thu, 01 Jan 2026 12:00:00 +0000\r\nMIME-Version: 1.0\r\n" + extra + "\r\n"
}

func (p *planner) mailbox() string { return p.word() + "@" + p.word() + ".example" }

const plainMail = "Content-Type: text/plain; charset=us-ascii\r\n"

func planSMTP(p *planner) { p.smtp(plainMail, p.size(), false) }

// smtp hands in a mail (RFC 5321): header lines and n octets more; a rule may
// match with the header lines.
func (p *planner) smtp(lines string, n int, marked bool) {
	from, to := p.mailbox(), p.mailbox()
	name := p.host()
	p.sayf(server, p.between(milli, 20*milli), "220 %s ESMTP\r\n", name)
	p.sayf(client, milli, "EHLO %s\r\n", p.host())
	p.sayf(server, milli, "250-%s\r\n250-SIZE 52428800\r\n250 8BITMIME\r\n", name)
	p.sayf(client, milli, "MAIL FROM:<%s>\r\n", from)
	p.sayf(server, milli, "250 2.1.0 Ok\r\n")
	p.sayf(client, milli, "RCPT TO:<%s>\r\n", to)
	p.sayf(server, p.between(milli, 20*milli), "250 2.1.5 Ok\r\n")
	p.sayf(client, milli, "DATA\r\n")
	p.sayf(server, milli, "354 End data with <CR><LF>.<CR><LF>\r\n")
	m := p.say(client, milli, []byte(p.mail(from, to, lines)))
	if marked {
		m.marked()
	}
	m.body, m.tail = n, "\r\n.\r\n"
	p.sayf(server, p.between(milli, 50*milli), "250 2.0.0 Ok: queued as %X\r\n", p.f.salt)
	p.sayf(client, milli, "QUIT\r\n")
	p.sayf(server, milli, "221 2.0.0 Bye\r\n")
}

// planPOP fetches one mail (RFC 1939).
func planPOP(p *planner) {
	user, n := p.word(), p.size()
	lines := p.mail(p.mailbox(), p.mailbox(), plainMail)
	p.sayf(server, p.between(milli, 20*milli), "+OK POP3 ready\r\n")
	p.sayf(client, milli, "USER %s\r\n", user)
	p.sayf(server, milli, "+OK\r\n")
	p.sayf(client, milli, "PASS %s%d\r\n", p.word(), p.r.IntN(1000))
	p.sayf(server, p.between(milli, 20*milli), "+OK logged in\r\n")
	p.sayf(client, milli, "STAT\r\n")
	p.sayf(server, milli, "+OK 1 %d\r\n", len(lines)+n)
	p.sayf(client, milli, "RETR 1\r\n")
	m := p.sayf(server, p.between(milli, 20*milli), "+OK %d octets\r\n%s", len(lines)+n, lines)
	m.body, m.tail = n, "\r\n.\r\n"
	p.sayf(client, milli, "DELE 1\r\n")
	p.sayf(server, milli, "+OK\r\n")
	p.sayf(client, milli, "QUIT\r\n")
	p.sayf(server, milli, "+OK bye\r\n")
}
