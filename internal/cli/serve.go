// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"boxdyno/host"
	"boxdyno/internal/files"
	"boxdyno/runner"
	"boxdyno/serve"
)

// serveAt is where serve listens by default.
const serveAt = "127.0.0.1:8480"

// serveMemory bounds what serve leaves to be collected after a large answer, in octets. A hub
// beside it needs more for its boards.
const serveMemory = 128 << 20

// leastToken is how long a token is at least, in characters.
const leastToken = 16

type serveFlags struct {
	listen, runs string
	token        string
	cert, key    string
	hosts        []string
	readOnly     bool
}

func (a *app) serve() *cobra.Command {
	var f serveFlags
	var h serveHub
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Show runs in a browser, while they go on and afterwards",
		Long: `Serve answers browsers until Ctrl-C: with the run that goes on, with all that were
kept, and with comparisons of them. It reads the runs' folders and measures nothing.
It may be started and ended while a run goes on.

A run is started and cancelled from the page with the token in the address that serve
prints, and runs as the user of serve. It goes on when serve ends. Reading needs no
token on this machine. At an address that others can reach, TLS is used and reading
needs the token too, unless --read-only opens it. Without --tls-cert a certificate is
made once and kept beside the runs.

With --hub the hub of a fleet runs in the same process, in place of boxdyno fleet hub, and
the page shows its boards. Its NATS server is in this process, too, or another one by its
URL, whose configuration holds what boxdyno fleet hub --rules prints.

With sudo, serve starts runs as root and cancels those of all users.`,
		Example: `  boxdyno serve
  sudo boxdyno serve --token-file /etc/boxdyno/token
  boxdyno serve --listen 0.0.0.0:8480 --host lab.example.net
  boxdyno serve --listen 192.0.2.10:8480 --read-only
  boxdyno serve --hub 0.0.0.0:4222 --hub-boards tls://hub.lan:4222
  boxdyno serve --hub tls://nats.lan:4222 --hub-ca ca.pem`,
		Args: cobra.NoArgs,
		RunE: do(func(ctx context.Context, _ []string) error {
			o, addr, err := a.served(f)
			if err != nil {
				return err
			}
			end, err := h.start(ctx, a, &o)
			if err != nil {
				return err
			}
			defer end()
			l, err := net.Listen("tcp", addr)
			switch {
			case errors.Is(err, syscall.EADDRINUSE):
				return fmt.Errorf("%w: another serve may use the address; give another --listen", err)
			case errors.Is(err, syscall.EACCES):
				return &host.Missing{What: "the right to listen at " + addr, Hint: "give --listen a port from 1024 on, or use sudo"}
			case err != nil:
				return &runner.PlanError{At: "--listen", Err: err}
			}
			scheme := "http"
			if o.TLS != nil {
				scheme = "https"
			}
			url := fmt.Sprintf("%s://%s/", scheme, l.Addr())
			if o.Token != "" && f.token == "" {
				url += "#token=" + o.Token
			}
			fmt.Fprintln(a.out, url)
			if os.Getenv("GOGC") == "" {
				defer debug.SetGCPercent(debug.SetGCPercent(300)) // it keeps little, and reads much that it lets go
				if os.Getenv("GOMEMLIMIT") == "" && h.Listen == "" {
					defer debug.SetMemoryLimit(debug.SetMemoryLimit(serveMemory))
				}
			}
			if err := serve.New(o).Serve(ctx, l); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		}),
	}
	h.add(cmd)
	fs := cmd.Flags()
	fs.StringVar(&f.listen, "listen", serveAt, "`address:port` to listen on")
	fs.StringVar(&f.runs, "runs", "", "`folder` of the runs (default $XDG_STATE_HOME/boxdyno/runs)")
	fs.StringVar(&f.token, "token-file", "", "`FILE` with the token, made where it does not exist (default: a new token at each start)")
	fs.StringVar(&f.cert, "tls-cert", "", "`FILE` with a certificate, in PEM")
	fs.StringVar(&f.key, "tls-key", "", "`FILE` with the certificate's key, in PEM")
	fs.StringSliceVar(&f.hosts, "host", nil, "`name` by which browsers call this machine, beside its addresses and host name")
	fs.BoolVar(&f.readOnly, "read-only", false, "start and cancel no runs; reading needs no token")
	return cmd
}

// served returns what a server needs, and where it listens.
func (a *app) served(f serveFlags) (o serve.Options, addr string, err error) {
	bad := func(flag, format string, args ...any) (serve.Options, string, error) {
		return o, "", &runner.PlanError{At: flag, Err: fmt.Errorf(format, args...)}
	}
	name, port, err := net.SplitHostPort(f.listen)
	if err != nil || port == "" {
		return bad("--listen", "%q is no address with a port: give one such as %s", f.listen, serveAt)
	}
	if (f.cert == "") != (f.key == "") {
		return bad("--tls-cert", "a certificate and its key go together: give --tls-cert and --tls-key")
	}
	o = serve.Options{Version: Version(), Runs: f.runs, ReadOnly: f.readOnly, Hosts: f.hosts,
		Declare: a.plugins.Declare, Offers: a.offers(), Argv: a.asked, Boards: boardPage, Library: []string{}, Metrics: a.metricsOffered()}
	if o.Runs == "" {
		if o.Runs, err = runsDir(); err != nil {
			return o, "", err
		}
	}
	if o.Runs, err = filepath.Abs(o.Runs); err != nil {
		return o, "", err
	}
	if f.runs != "" {
		if info, err := os.Stat(o.Runs); err != nil || !info.IsDir() {
			return bad("--runs", "there is no folder %s", o.Runs)
		}
		o.Library = []string{"--runs=" + o.Runs}
	}
	if own, err := os.Hostname(); err == nil {
		o.Hosts = append(o.Hosts, own)
	}
	near := name == "localhost"
	if ip, err := netip.ParseAddr(name); err == nil {
		near = ip.IsLoopback()
	}
	o.Open = near || f.readOnly
	switch {
	case f.token != "":
		if o.Token, err = tokenIn(f.token); err != nil {
			return o, "", err
		}
	case !f.readOnly:
		o.Token = newToken()
	}
	switch {
	case f.cert != "":
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return o, "", fmt.Errorf("read the certificate: %w", err)
		}
		o.TLS = &pair
	case !near:
		state, err := userFolder("XDG_STATE_HOME", ".local/state")
		if err != nil {
			return o, "", err
		}
		pair, made, err := serve.OwnCertificate(filepath.Join(state, "boxdyno", "serve"), sudoer(), o.Hosts)
		if err != nil {
			return o, "", err
		}
		if made {
			a.note("made a certificate of its own: browsers ask once whether to trust it")
		}
		o.TLS = &pair
	}
	return o, net.JoinHostPort(name, port), nil
}

func newToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// tokenIn reads the token in a file, or makes both.
func tokenIn(name string) (string, error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		token := newToken()
		if err := files.Replace(name, sudoer(), func(f *os.File) error {
			if err := f.Chmod(0o600); err != nil {
				return err
			}
			_, err := f.WriteString(token + "\n")
			return err
		}); err != nil {
			return "", fmt.Errorf("make the token: %w", err)
		}
		return token, nil
	}
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", &host.Missing{What: "a token that others cannot read in " + name, Hint: "chmod 600 " + name}
	}
	data, err := files.Read(name, 4096)
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if len(token) < leastToken || strings.ContainsAny(token, " \t\r\n") {
		return "", &runner.PlanError{At: "--token-file", Err: fmt.Errorf("%s must hold one word of %d or more characters: remove it, and serve makes one", name, leastToken)}
	}
	return token, nil
}

// offers are what the page may start.
func (a *app) offers() (all []serve.Offer) {
	for _, kind := range []string{"roles", "procedures", "plans"} {
		some, err := a.listed(kind)
		if err != nil {
			continue // boxdyno list says why
		}
		for _, l := range some {
			o := serve.Offer{Kind: strings.TrimSuffix(kind, "s"), Name: l.Name, Help: l.Doc}
			for _, p := range l.Params {
				o.Takes = append(o.Takes, serve.Taken{Name: p.Name, Help: p.Help, Default: p.Default})
			}
			all = append(all, o)
		}
	}
	return all
}

// metricsOffered are those that the page History offers.
func (a *app) metricsOffered() (all []serve.Metric) {
	for _, p := range a.plugins.Procedures {
		for _, m := range p.Metrics {
			all = append(all, serve.Metric{Name: m.Name, Procedure: p.Name, Unit: string(m.Unit), Help: m.Help})
		}
	}
	return all
}

// asked makes arguments from what the page asks for. It refuses what run would, and what
// names a command or a file: that is for the command line.
func (a *app) asked(s serve.Start) ([]string, error) {
	f := measureFlags{set: s.Set, lab: s.Lab, box: s.Box, repeat: s.Repeat, budget: s.Budget, quick: s.Preset == "quick", standard: s.Preset == "standard"}
	if s.Preset != "" && !f.quick && !f.standard {
		return nil, fmt.Errorf("there is no preset %q: there are quick and standard", s.Preset)
	}
	for _, word := range append([]string{s.Lab, s.Box, s.Repeat, s.Budget}, s.Set...) {
		if _, value, given := strings.Cut(word, "="); given {
			word = value
		}
		for v := range strings.SplitSeq(word, ",") {
			if _, err := netip.ParsePrefix(v); err != nil && strings.Contains(v, "/") {
				return nil, fmt.Errorf("%q names a file: start such a run on the command line", v)
			}
		}
	}
	var p runner.Plan
	verb := "run"
	if s.Kind == "role" {
		verb = "qualify"
		role, err := runner.FindRole(s.Name)
		if err != nil {
			return nil, err
		}
		preset := runner.DefaultPreset
		if f.standard {
			preset = "standard"
		}
		if p, _, _, err = role.Plan(preset); err != nil {
			return nil, err
		}
	} else {
		var err error
		if p, _, err = a.plan(s.Name); err != nil {
			return nil, err
		}
	}
	if err := f.apply(a, &p); err != nil {
		return nil, err
	}
	if f.box != "" {
		p, _ = p.WithoutOwnLabs()
	} else if commands := commandsOf(p); len(commands) > 0 {
		return nil, fmt.Errorf("it would run %s: start such a run on the command line", strings.Join(commands, ", and "))
	}
	p, err := p.Resolve(a.plugins)
	if err == nil && s.Kind == "role" {
		p, _, err = p.Offered(a.plugins)
	}
	if err != nil {
		return nil, err
	}
	args := []string{verb, s.Name, "--quiet"}
	for _, x := range []struct{ flag, value string }{{"--lab", s.Lab}, {"--box", s.Box}, {"--repeat", s.Repeat}, {"--budget", s.Budget}} {
		if x.value != "" {
			args = append(args, x.flag+"="+x.value)
		}
	}
	if s.Preset != "" {
		args = append(args, "--"+s.Preset)
	}
	for _, set := range s.Set {
		args = append(args, "--set="+set)
	}
	return args, nil
}
