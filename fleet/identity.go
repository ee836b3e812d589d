// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"boxdyno/host"
	"boxdyno/internal/files"
	"boxdyno/link"
)

// An Identity is what a board keeps of its fleet.
type Identity struct {
	URL   string   `json:"url"`             // of the NATS server, or several with commas between them
	Hub   string   `json:"hub"`             // the hub's public key
	Pin   string   `json:"pin"`             // Token.Pin, in hex
	Name  string   `json:"name"`            // that the board asks for
	Allow []string `json:"allow,omitempty"` // kinds of methods beside those that measure

	key  nkeys.KeyPair     // the board's own
	dial nats.CustomDialer // nil: TCP; tests of one process have another
}

// File names in the agent's folder.
const (
	IdentityFile = "fleet.json"
	seedFile     = "fleet.seed"
)

// Kinds of methods that a board may let the hub use beside those that measure.
var Kinds = []string{"subjects", "tune", "services", "network", "update"}

// measures are the methods of every board: none of them runs a command that the hub names.
var measures = []string{"clock", "identify", "check", "hold", "busy", "procedure.check", "procedure.run", "procedure.answer"}

// kindsOf are the methods of Kinds, by their beginnings.
var kindsOf = map[string][]string{
	"subjects": {"subject.", "file."},
	"tune":     {"tune."},
	"services": {"service.", "ledger.", "receive.", "cables.", "telemetry."},
	"network":  {"network.", "iperf.", "server.", "cpu.time"}, // works between boards, which open ports to each other
	"update":   {"update."},
}

// Allows says whether the hub may use a method.
func (id Identity) Allows(method string) bool {
	return slices.Contains(measures, method) || slices.ContainsFunc(id.Allow, func(kind string) bool {
		return slices.ContainsFunc(kindsOf[kind], func(begin string) bool { return strings.HasPrefix(method, begin) })
	})
}

// check says what of an identity cannot be.
func (id Identity) check() error {
	for part := range strings.SplitSeq(id.URL, ",") {
		if u, err := url.Parse(part); err != nil || u.Scheme != "tls" || u.Host == "" || u.User != nil {
			return fmt.Errorf("%q is no URL of a hub: want such as tls://hub.lan:4222", part)
		}
	}
	for _, kind := range id.Allow {
		if !slices.Contains(Kinds, kind) {
			return fmt.Errorf("a hub cannot be allowed %q: there are %s", kind, strings.Join(Kinds, ", "))
		}
	}
	if !nkeys.IsValidPublicAccountKey(id.Hub) {
		return errors.New("the hub's key is none")
	}
	if pin, err := hex.DecodeString(id.Pin); err != nil || len(pin) != len(Token{}.Pin) {
		return errors.New("the pin of the hub's certificate is none")
	}
	return nil
}

func (id Identity) pin() (pin [32]byte) {
	b, _ := hex.DecodeString(id.Pin) // check has seen it
	copy(pin[:], b)
	return pin
}

// Key is the board's public key.
func (id Identity) Key() string {
	key, _ := id.key.PublicKey() // a pair has one
	return key
}

// own is the board's key, made where there is none. Nobody else may read it.
func own(folder string) (nkeys.KeyPair, error) {
	path := filepath.Join(folder, seedFile)
	seed, err := files.Read(path, 256)
	if err == nil {
		info, err := os.Stat(path)
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			return nil, fmt.Errorf("others may read %s: remove it, and join the fleet anew", path)
		}
		key, err := nkeys.FromSeed(seed)
		if err != nil {
			return nil, fmt.Errorf("%s holds no key: remove it, and join the fleet anew", path)
		}
		return key, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the board's key: %w", err)
	}
	key, err := nkeys.CreateUser()
	if err == nil {
		seed, err = key.Seed()
	}
	if err == nil {
		err = keep(folder, seedFile, seed)
	}
	if err != nil {
		return nil, fmt.Errorf("make the board's key: %w", err)
	}
	return key, nil
}

// keep writes a file whole, for its owner alone.
func keep(folder, name string, data []byte) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return host.Permit("make the agent's folder", err)
	}
	return files.Replace(filepath.Join(folder, name), nil, func(f *os.File) error {
		_, err := f.Write(data)
		return errors.Join(err, f.Chmod(0o600))
	})
}

// Load is the identity in an agent's folder. A board that never joined is a *host.Missing.
func Load(folder string) (id Identity, err error) {
	data, err := files.Read(filepath.Join(folder, IdentityFile), 64<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return id, &host.Missing{What: "a fleet that this board is in", Hint: "get a token with boxdyno fleet token, then run boxdyno-agent join URL TOKEN"}
	}
	if err == nil {
		err = json.Unmarshal(data, &id)
	}
	if err == nil {
		err = id.check()
	}
	if err != nil {
		return id, fmt.Errorf("read %s: %w; join the fleet anew", filepath.Join(folder, IdentityFile), err)
	}
	id.key, err = own(folder)
	return id, err
}

// joining is how long the server may take.
const joining = 20 * time.Second

// Join has the hub of token at addresses admit this board, and keeps that in folder. The
// board's key is made there first. A board that is in the fleet stays in it: its token is
// not used up by another.
func Join(ctx context.Context, folder, addresses, token, name string, allow []string) (id Identity, err error) {
	t, err := ParseToken(token)
	if err != nil {
		return id, err
	}
	id = Identity{URL: addresses, Pin: hex.EncodeToString(t.Pin[:]), Name: name, Allow: allow}
	if id.Hub, err = t.HubKey(); err == nil {
		err = id.check()
	}
	if err == nil {
		id.key, err = own(folder)
	}
	if err != nil {
		return id, err
	}
	ctx, cancel := context.WithTimeout(ctx, joining)
	defer cancel()
	nc, err := id.connect(nats.Token(t.Password()), nats.NoReconnect())
	if err != nil {
		return id, fmt.Errorf("join the fleet at %s: %w", addresses, refused(err))
	}
	defer nc.Close()
	if err := nc.FlushWithContext(ctx); err != nil {
		return id, fmt.Errorf("join the fleet at %s: %w", addresses, err)
	}
	return id, id.keep(folder)
}

// Known is the token of a board that asks whether it is known, beside its agent that is
// connected already.
const Known = "known"

// JoinOnce is Join, unless the hub of the token knows the board already: the token is not
// used then. What the board allows is kept as it is now asked for.
func JoinOnce(ctx context.Context, folder, addresses, token, name string, allow []string) (id Identity, there bool, err error) {
	t, err := ParseToken(token)
	if err != nil {
		return id, false, err
	}
	hub, err := t.HubKey()
	if err != nil {
		return id, false, err
	}
	if was, lerr := Load(folder); lerr == nil && was.Hub == hub {
		was.URL, was.Pin, was.Allow = addresses, hex.EncodeToString(t.Pin[:]), allow
		if err := was.check(); err != nil {
			return id, false, err
		}
		if nc, cerr := was.connect(nats.NoReconnect(), nats.Token(Known)); cerr == nil {
			nc.Close()
			return was, true, was.keep(folder)
		}
	}
	id, err = Join(ctx, folder, addresses, token, name, allow)
	return id, false, err
}

func (id Identity) keep(folder string) error {
	data, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return err
	}
	return keep(folder, IdentityFile, append(data, '\n'))
}

// refused says what a server's refusal means here.
func refused(err error) error {
	if errors.Is(err, nats.ErrAuthorization) {
		return errors.New("the hub refuses this board: the token was used or has expired, or the board was revoked; boxdyno fleet ls at the hub says which")
	}
	return err
}

// connect begins to talk to the server, as the board.
func (id Identity) connect(more ...nats.Option) (*nats.Conn, error) {
	if id.dial != nil {
		more = append(more, nats.SetCustomDialer(id.dial))
	}
	opts := append([]nats.Option{
		nats.Name(id.Name), nats.Nkey(id.Key(), id.key.Sign), nats.Secure(TLS(id.pin())),
		nats.Timeout(joining), nats.PingInterval(link.Heartbeat), nats.MaxPingsOutstanding(3), nats.IgnoreDiscoveredServers(),
	}, more...)
	return nats.Connect(id.URL, opts...)
}
