// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// speak checks that a conversation is of the protocol that its class names.
func speak(name string, f *heard) error {
	c, s := f.streams[client], f.streams[server]
	switch name {
	case "dns":
		for i, d := range f.segments {
			var m layers.DNS
			if err := m.DecodeFromBytes(d, gopacket.NilDecodeFeedback); err != nil {
				return err
			}
			if m.QR != (i == 1) || len(m.Questions) != 1 || len(m.Answers) != i {
				return fmt.Errorf("datagram %d is %+v", i, m)
			}
		}
	case "browsing", "get", "post":
		requests, answers := bufio.NewReader(bytes.NewReader(c)), bufio.NewReader(bytes.NewReader(s))
		for n := 0; ; n++ {
			r, err := http.ReadRequest(requests)
			if err == io.EOF && n > 0 {
				if _, err = answers.ReadByte(); err != io.EOF {
					return fmt.Errorf("octets after the last answer")
				}
				return nil
			}
			if err != nil {
				return err
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return err
			}
			a, err := http.ReadResponse(answers, r)
			if err != nil {
				return err
			}
			if got, err := io.Copy(io.Discard, a.Body); err != nil || got != a.ContentLength {
				return fmt.Errorf("a body of %d octets, %d are announced: %v", got, a.ContentLength, err)
			}
		}
	case "https":
		for _, stream := range f.streams {
			for len(stream) > 0 {
				if len(stream) < 5 || stream[0] < 20 || stream[0] > 23 || stream[1] != 3 || len(stream) < 5+int(binary.BigEndian.Uint16(stream[3:])) {
					return fmt.Errorf("no TLS record: % x", stream[:min(len(stream), 8)])
				}
				stream = stream[5+int(binary.BigEndian.Uint16(stream[3:])):]
			}
		}
		if s[0] != 22 || s[5] != 2 {
			return fmt.Errorf("no ServerHello: % x", s[:8])
		}
		return hello(c)
	case "exchange":
		for _, stream := range f.streams {
			for n := 0; len(stream) > 0; n++ {
				if len(stream) < 16 || stream[0] != 5 || stream[3] != 3 || len(stream) < int(binary.LittleEndian.Uint16(stream[8:])) {
					return fmt.Errorf("no fragment of RPC: % x", stream[:min(len(stream), 16)])
				}
				if call := binary.LittleEndian.Uint32(stream[12:]); int(call) != n+1 {
					return fmt.Errorf("call %d of %d", call, n+1)
				}
				stream = stream[binary.LittleEndian.Uint16(stream[8:]):]
			}
		}
	case "oracle":
		for _, stream := range f.streams {
			for n := 0; len(stream) > 0; n++ {
				size := int(binary.BigEndian.Uint16(stream))
				if size < 8 || size > len(stream) || size > 2048 || (n == 0) != (stream[4] < 6) {
					return fmt.Errorf("packet %d: % x", n, stream[:min(len(stream), 8)])
				}
				stream = stream[size:]
			}
		}
		if at := int(binary.BigEndian.Uint16(c[26:])); c[at] != '(' || int(binary.BigEndian.Uint16(c[24:])) != int(binary.BigEndian.Uint16(c))-at {
			return fmt.Errorf("connect data: % x", c[:64])
		}
	case "citrix":
		for _, stream := range f.streams {
			if !bytes.HasPrefix(stream, []byte("\x7f\x7fICA\x00")) {
				return fmt.Errorf("no greeting: % x", stream[:6])
			}
		}
	case "smtp":
		if !bytes.HasPrefix(s, []byte("220 ")) || !bytes.HasPrefix(c, []byte("EHLO ")) || !bytes.HasSuffix(c, []byte("\r\n.\r\nQUIT\r\n")) || !bytes.HasSuffix(s, []byte("221 2.0.0 Bye\r\n")) {
			return fmt.Errorf("not SMTP: %.200q %.200q", c, s)
		}
		for line := range bytes.SplitSeq(c, []byte("\r\n")) {
			if len(line) > 998 {
				return fmt.Errorf("a line of %d characters", len(line))
			}
		}
	case "pop":
		if !bytes.HasPrefix(s, []byte("+OK")) || !bytes.HasPrefix(c, []byte("USER ")) || !bytes.Contains(s, []byte("\r\n.\r\n+OK")) {
			return fmt.Errorf("not POP: %.200q %.200q", c, s)
		}
	case "sip":
		voice := [2]int{}
		for _, d := range f.segments {
			if d[0] == 0x80 {
				if len(d) != 32 || d[1] != typeG729 {
					return fmt.Errorf("no RTP: % x", d)
				}
				voice[d[11]&1]++
				continue
			}
			var m layers.SIP
			if err := m.DecodeFromBytes(d, gopacket.NilDecodeFeedback); err != nil {
				return err
			}
			_, body, _ := bytes.Cut(d, []byte("\r\n\r\n"))
			if got := m.GetFirstHeader("Content-Length"); got != fmt.Sprint(len(body)) {
				return fmt.Errorf("content length %s: %q", got, d)
			}
		}
		if len(f.segments) > 1 && (voice[0] < 100 || max(voice[0]-voice[1], voice[1]-voice[0]) > 1) {
			return fmt.Errorf("voice %v", voice)
		}
	case "rtp", "video":
		var next [2]uint16
		for i, d := range f.segments {
			seq := binary.BigEndian.Uint16(d[2:])
			if d[0] != 0x80 || i > 1 && seq != next[i%2] {
				return fmt.Errorf("datagram %d: % x, want sequence %d", i, d[:12], next[i%2])
			}
			next[i%2] = seq + 1
		}
	default:
		return fmt.Errorf("nobody checks it")
	}
	return nil
}

// A deafPeer says what it has to say, and hears nothing.
type deafPeer struct {
	net.Conn
	io.Reader
}

func (d deafPeer) Read(b []byte) (int, error)  { return d.Reader.Read(b) }
func (d deafPeer) Write(b []byte) (int, error) { return len(b), nil }

// hello lets a TLS server read a client's first words.
func hello(stream []byte) error {
	var got *tls.ClientHelloInfo
	stop := fmt.Errorf("enough")
	tls.Server(deafPeer{Reader: bytes.NewReader(stream)}, &tls.Config{GetConfigForClient: func(i *tls.ClientHelloInfo) (*tls.Config, error) {
		got = i
		return nil, stop
	}}).HandshakeContext(context.Background())
	if got == nil || !strings.HasSuffix(got.ServerName, ".example") || !slices.Contains(got.SupportedVersions, tls.VersionTLS13) {
		return fmt.Errorf("a TLS server does not understand the ClientHello: %+v", got)
	}
	return nil
}
