// SPDX-License-Identifier: Apache-2.0

// Package fleet is a board's part in a fleet: boards that one hub reaches over NATS. A
// board connects outbound only, and carries out what the hub's key has signed:
//
//	board                                   NATS server                 hub (package fleet/hub)
//	Join: TOKEN, own nkey ------TLS--------> auth callout ------------> Hub admits it, once
//	Board.Run: own nkey ----------TLS------> auth callout ------------> Hub knows it
//	  hello, epoch ----- fleet.KEY.up.hello -------------------------->
//	  <----------------- fleet.KEY.down  [signature, Order] ----------- welcome: the hub's time
//	  state, each second  fleet.KEY.up.state ------------------------->
//	  link.Server <------ fleet.KEY.down  [signature, Order] ---------- a call, of a session
//	              ------- fleet.KEY.up.SESSION.INDEX.reply.N ---------> link.Conn
//
// KEY is the board's public nkey. By the server's permissions a board hears its own down
// and says its own up, and nothing else. An Order carries the board, the session, the
// board's epoch, a counter and an expiry; each that does not fit is refused and counted.
package fleet

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nkeys"

	"boxdyno/link"
	"boxdyno/unit"
)

// Protocol is the version of what a board and a hub say to each other.
const Protocol = 2

// Bounds of what is said.
const (
	MaxMessage = 1 << 20 // octets of one message
	MaxToken   = 1 << 10

	mostSessions = 4
)

// Times of the fleet.
const (
	StateEvery = time.Second
	// Silence is how long a board, or a session's owner, may say nothing.
	Silence = link.Silence
	// OrderLasts is how long an order may be on its way.
	OrderLasts = 10 * time.Second
	// helloEvery is how often a board asks for the hub's time: two clocks drift apart by
	// 0.1 s in so long at most.
	helloEvery = 10 * time.Minute
)

// Down is where the board of a public key hears orders.
func Down(key string) string { return "fleet." + key + ".down" }

// Up is where the board of a public key says what: "state", or of a session its third
// message, "SESSION.3.reply.7".
func Up(key, what string) string { return "fleet." + key + ".up." + what }

// An Order is all that a board obeys.
type Order struct {
	Board   string `json:"board"`   // its public key
	Session string `json:"session"` // of a run, or of a look; chosen by its owner
	Epoch   string `json:"epoch"`   // of the board's hello: it begins with the board's program
	Counter uint64 `json:"counter"` // grows with every order of a session
	Expires int64  `json:"expires"` // ns by the hub's clock, which never steps
	Subject string `json:"subject"` // one of those below, or what a link.Way publishes
	Reply   string `json:"reply,omitempty"`
	Data    []byte `json:"data,omitempty"`
	Index   uint64 `json:"index,omitempty"` // of a session's calls, from 1: one that is said again has it again
	Heard   uint64 `json:"heard,omitempty"` // messages of the session that its owner has heard
}

// Subjects of orders that are no calls.
const (
	WelcomeOrder = "fleet.welcome" // Data: Welcome. The first one of an epoch
	PingOrder    = "fleet.ping"    // Data: what the pong returns
	AgainOrder   = "fleet.again"   // asks for another hello
	OpenOrder    = "fleet.open"    // begins a session
	AliveOrder   = "fleet.alive"   // its owner is there
	CloseOrder   = "fleet.close"   // ends it
)

// A Welcome answers a Hello.
type Welcome struct {
	Name  string `json:"name"`  // of the board, in the fleet
	Nonce string `json:"nonce"` // the hello's
	Now   int64  `json:"now"`   // ns by the hub's clock
}

// A Hello is what a board says first, and again until it is welcome.
type Hello struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"`
	Arch     string `json:"arch"` // GOARCH
	Epoch    string `json:"epoch"`
	Nonce    string `json:"nonce"`
	Boot     string `json:"boot,omitempty"`  // boot_id
	Trial    bool   `json:"trial,omitempty"` // this program is tried, and ends once it is welcome
	Why      string `json:"why,omitempty"`   // what became of an update, until the hub has heard it
}

// A State is what a board says each second.
type State struct {
	Epoch       string       `json:"epoch"`
	Seq         uint64       `json:"seq"`     // grows by one
	Now         unit.Instant `json:"now"`     // its monotonic clock
	Wall        int64        `json:"wall"`    // ns since 1970, by its clock
	Welcome     bool         `json:"welcome"` // the hub has said what time it is
	Sessions    []string     `json:"sessions,omitempty"`
	Orders      []uint64     `json:"orders,omitempty"`      // of each session: Index of the last one that was obeyed
	Temperature float64      `json:"temperature,omitempty"` // highest of its sensors, degrees Celsius; 0: none
	Throttles   int64        `json:"throttles,omitempty"`   // times that it was throttled since boot; -1: it is now
	Refused     uint64       `json:"refused,omitempty"`     // orders
	Why         string       `json:"why,omitempty"`         // of the last one
}

// A Pong answers a ping.
type Pong struct {
	Data []byte       `json:"data"`
	Now  unit.Instant `json:"now"`
	Wall int64        `json:"wall"`
}

// Sign makes the message of an order.
func Sign(o Order, key nkeys.KeyPair) ([]byte, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	if len(body) > MaxMessage-128 {
		return nil, fmt.Errorf("an order has %d octets, at most %d are sent", len(body), MaxMessage-128)
	}
	signature, err := key.Sign(body)
	if err != nil {
		return nil, fmt.Errorf("sign an order: %w", err)
	}
	return append(signature, body...), nil
}

// signed is an ed25519 signature's length.
const signed = 64

// A gate lets orders through that are the hub's, for this board, new and in time.
type gate struct {
	board, epoch string
	hub          nkeys.KeyPair // public
	now          func() unit.Instant

	welcomed uint64       // counter of the last welcome
	nonce    string       // of the last hello
	asked    unit.Instant // when that was said
	base     int64        // the hub's clock, ns ...
	at       unit.Instant // ... at this instant of ours
	opened   uint64       // highest counter of an order that began a session
	counters map[string]uint64
	left     []string // sessions that the board ended by itself, as their owners were not heard; the last ones
}

// mostLeft is how many sessions are kept that the board ended: their owners hear of it within
// seconds, and say no more.
const mostLeft = 64

// leave ends a session whose owner was not heard, and may yet say something.
func (g *gate) leave(session string) {
	g.left = append(g.left, session)
	g.left = g.left[max(0, len(g.left)-mostLeft):]
}

var (
	errAltered = errors.New("its signature is not the hub's")
	errBoard   = errors.New("it is for another board")
	errEpoch   = errors.New("it was made for an earlier start of this agent")
	errReplay  = errors.New("it was heard before")
	errExpired = errors.New("it has expired")
	errEarly   = errors.New("the hub has not said what time it is")
	errStale   = errors.New("it answers an earlier hello")
	errSession = errors.New("it is of a session that is not open")
	errLeft    = errors.New("it is of a session that ended when its owner was not heard")
)

// pass returns the order in a message, or why it is none to obey.
func (g *gate) pass(message []byte) (o Order, err error) {
	if len(message) < signed || len(message) > MaxMessage || g.hub.Verify(message[signed:], message[:signed]) != nil {
		return o, errAltered
	}
	dec := json.NewDecoder(bytes.NewReader(message[signed:]))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&o); err != nil {
		return o, fmt.Errorf("it cannot be read: %w", err)
	}
	switch {
	case o.Board != g.board:
		return o, errBoard
	case o.Epoch != g.epoch:
		return o, errEpoch
	case o.Subject == WelcomeOrder:
		return o, g.welcome(o)
	case g.welcomed == 0:
		return o, errEarly
	case g.base+int64(g.now()-g.at) > o.Expires:
		return o, errExpired
	case o.Subject == OpenOrder:
		if o.Counter <= g.opened || g.counters[o.Session] != 0 {
			return o, errReplay
		}
		g.opened, g.counters[o.Session] = o.Counter, o.Counter
		return o, nil
	case o.Subject == PingOrder || o.Subject == AgainOrder:
		return o, g.count(o, "", g.counters[""])
	}
	last, open := g.counters[o.Session]
	switch {
	case open && o.Session != "":
	case slices.Contains(g.left, o.Session):
		return o, errLeft
	default:
		return o, errSession
	}
	return o, g.count(o, o.Session, last)
}

func (g *gate) count(o Order, session string, last uint64) error {
	if o.Counter <= last {
		return errReplay
	}
	g.counters[session] = o.Counter
	return nil
}

// welcome takes the hub's time. A welcome that was held back would make it late: only one
// that answers the last hello counts, and soon.
func (g *gate) welcome(o Order) error {
	var w Welcome
	if err := json.Unmarshal(o.Data, &w); err != nil {
		return fmt.Errorf("its welcome cannot be read: %w", err)
	}
	switch {
	case o.Counter <= g.welcomed:
		return errReplay
	case w.Nonce != g.nonce || g.nonce == "":
		return errStale
	case g.now()-g.asked > unit.Instant(OrderLasts):
		return errExpired
	}
	g.welcomed, g.nonce, g.base, g.at = o.Counter, "", w.Now, g.now()
	return nil
}

// A Token lets one board join.
type Token struct {
	Pin    [sha256.Size]byte // of the public key of a certificate that the server shows; zero: the system's authorities decide
	Hub    [32]byte          // the hub's public key
	Secret [16]byte
}

const tokenMark = "bdfleet1-"

// String is how a token is handed over.
func (t Token) String() string {
	b := append(append(append([]byte{}, t.Pin[:]...), t.Hub[:]...), t.Secret[:]...)
	sum := sha256.Sum256(b)
	return tokenMark + base64.RawURLEncoding.EncodeToString(append(b, sum[:4]...))
}

// ParseToken reads a token; one that was cut or mistyped is an error.
func ParseToken(s string) (t Token, err error) {
	text, ours := strings.CutPrefix(strings.TrimSpace(s), tokenMark)
	if !ours || len(s) > MaxToken {
		return t, fmt.Errorf("the token does not begin with %s: copy it whole from boxdyno fleet token", tokenMark)
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	const size = len(t.Pin) + len(t.Hub) + len(t.Secret)
	if err == nil && len(b) == size+4 {
		if sum := sha256.Sum256(b[:size]); bytes.Equal(sum[:4], b[size:]) {
			copy(t.Pin[:], b)
			copy(t.Hub[:], b[len(t.Pin):])
			copy(t.Secret[:], b[len(t.Pin)+len(t.Hub):])
			return t, nil
		}
	}
	return t, errors.New("the token is not whole: copy it again from boxdyno fleet token")
}

// HubKey is the hub's public key as nkeys write it.
func (t Token) HubKey() (string, error) {
	key, err := nkeys.Encode(nkeys.PrefixByteAccount, t.Hub[:])
	return string(key), err
}

// Password is the secret as a NATS client says it.
func (t Token) Password() string { return base64.RawURLEncoding.EncodeToString(t.Secret[:]) }

// Pin is that of a certificate.
func Pin(c *x509.Certificate) [sha256.Size]byte { return sha256.Sum256(c.RawSubjectPublicKeyInfo) }

// TLS is how a server that shows a certificate of pin is known. By the zero pin the
// system's authorities and the server's name decide.
func TLS(pin [sha256.Size]byte) *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS13}
	if pin == ([sha256.Size]byte{}) {
		return c
	}
	c.InsecureSkipVerify = true // VerifyConnection does, by the pin
	c.VerifyConnection = func(s tls.ConnectionState) error {
		roots, between := x509.NewCertPool(), x509.NewCertPool()
		for _, cert := range s.PeerCertificates {
			between.AddCert(cert)
			if Pin(cert) == pin {
				roots.AddCert(cert)
			}
		}
		if len(s.PeerCertificates) == 0 {
			return errors.New("the server shows no certificate")
		}
		first := s.PeerCertificates[0]
		// A board without a clock of its own has yet to learn the time: the pin decides.
		if _, err := first.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: first.NotBefore.Add(time.Second)}); err != nil {
			return errors.New("the server shows another certificate than the hub's: it is another server, or the hub was set up anew")
		}
		return nil
	}
	return c
}

// Counter is the one after last. now is ns by the hub's clock, with which counters grow from
// one process of the hub's machine to the next.
func Counter(last uint64, now int64) uint64 { return max(last+1, uint64(now)) }

// PingAt is an order's data for a ping that is sent at an instant.
func PingAt(at unit.Instant) []byte { return binary.BigEndian.AppendUint64(nil, uint64(at)) }

// At is the instant at which the ping of p was sent; false: p is no pong of ours.
func (p Pong) At() (unit.Instant, bool) {
	if len(p.Data) != 8 {
		return 0, false
	}
	return unit.Instant(binary.BigEndian.Uint64(p.Data)), true
}
