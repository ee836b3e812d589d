// SPDX-License-Identifier: Apache-2.0

// Package hub has the NATS server in the tester's process, and the program, ssh most
// often, whose standard streams carry a box's connection to it:
//
//	link.Conn === server (DontListen) === bridge === stdin, stdout of ssh ... agent
package hub

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/link"
)

const (
	testerUser = "tester"
	boxUser    = "box"
	// ending is how long the agent may take to put back what it changed.
	ending = 10 * time.Second
	// leaving is how long one that was never greeted may take to end.
	leaving = time.Second
)

// Dial starts the command and greets the agent. ctx is for that alone. Another version or
// protocol than ours, and a program that does not answer, are a *host.Missing.
func Dial(ctx context.Context, a link.Agent) (_ *link.Conn, err error) {
	p, err := start(a)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.stop())
		}
	}()
	stopped := guard.AfterDone(ctx, func() { p.stdout.Close() })
	hello, err := p.greet(a)
	stopped()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	srv, password, err := newServer()
	if err != nil {
		return nil, err
	}
	conn, err := srv.InProcessConn()
	if err != nil {
		srv.Shutdown()
		return nil, fmt.Errorf("reach our own server: %w", err)
	}
	c, err := link.Talk(a.Name, hello, conn, testerUser, password, func() error {
		err := p.stop()
		srv.Shutdown()
		srv.WaitForShutdown()
		return err
	})
	if err != nil {
		srv.Shutdown()
		return nil, err
	}
	there, err := srv.InProcessConn()
	if err == nil {
		p.bridge(there, c)
		err = c.Ready(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// newServer is one that listens nowhere. The box may answer, and nothing else.
func newServer() (*server.Server, string, error) {
	password := rand.Text()
	srv, err := server.NewServer(&server.Options{
		ServerName: "boxdyno", DontListen: true, NoLog: true, NoSigs: true, NoSystemAccount: true,
		MaxPayload: link.MaxMessage + 4096, MaxConn: 2, MaxSubs: 8,
		PingInterval: link.Heartbeat, MaxPingsOut: 3, WriteDeadline: silence.reads,
		Users: []*server.User{{Username: testerUser, Password: password}, {Username: boxUser, Password: rand.Text(), Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: []string{link.ReplyTo}},
			Subscribe: &server.SubjectPermission{Allow: []string{link.ToBox}},
		}}},
		NoAuthUser: boxUser,
	})
	if err != nil {
		return nil, "", fmt.Errorf("begin our own server: %w", err)
	}
	srv.Start()
	if !srv.ReadyForConnections(link.Silence) {
		srv.Shutdown()
		return nil, "", fmt.Errorf("our own server was not ready within %v", link.Silence)
	}
	return srv, password, nil
}

// A process carries a box's connection.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.ReadCloser
	from   *bufio.Reader // of stdout
	stderr *lastLine
	ended  chan struct{}
	exit   error // once ended
	copies guard.Group
	stop   func() error

	greeted atomic.Bool
}

func start(a link.Agent) (*process, error) {
	path, err := host.Program(a.Argv[0])
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(path, a.Argv[1:]...), stderr: &lastLine{}, ended: make(chan struct{})}
	p.cmd.Stderr = p.stderr
	p.cmd.WaitDelay = time.Second
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the terminal's Ctrl-C is ours to handle
	if p.stdin, err = p.cmd.StdinPipe(); err == nil {
		// Not cmd.StdoutPipe, which Wait would close before all is read.
		var w *os.File
		var r *os.File
		if r, w, err = os.Pipe(); err == nil {
			p.cmd.Stdout, p.stdout = w, r
			err = errors.Join(p.cmd.Start(), w.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reach %s: %w", a.Name, err)
	}
	p.from = bufio.NewReaderSize(heard{p.stdout.(*os.File)}, link.MaxHello)
	guard.Go(func() {
		p.exit = p.cmd.Wait()
		close(p.ended)
	})
	p.stop = sync.OnceValue(func() error {
		_ = p.stdin.Close() // it may have ended by itself
		patience := leaving
		if p.greeted.Load() {
			patience = ending
		}
		late := time.NewTimer(patience)
		defer late.Stop()
		var err error
		select {
		case <-p.ended:
		case <-late.C:
			_ = p.cmd.Process.Kill()
			<-p.ended
			if !p.greeted.Load() {
				break
			}
			err = fmt.Errorf("%s did not end within %v; what it changed there may not be put back yet", a.Name, patience)
		}
		_ = p.stdout.Close()
		p.copies.Wait()
		return err
	})
	return p, nil
}

// silence is link.Silence, of an agent that says nothing and of one that reads nothing. Tests
// shorten them.
var silence = struct{ says, reads time.Duration }{link.Silence, link.Silence}

// heard ends a stream that says nothing for silence.says. The file is not embedded: its
// WriteTo would read past Read.
type heard struct{ f *os.File }

func (h heard) Read(b []byte) (int, error) {
	if err := h.f.SetReadDeadline(time.Now().Add(silence.says)); err != nil {
		return 0, err
	}
	return h.f.Read(b)
}

// read ends a stream that nobody reads for silence.reads.
type read struct{ w io.Writer }

func (r read) Write(b []byte) (int, error) {
	if d, ok := r.w.(interface{ SetWriteDeadline(time.Time) error }); ok {
		_ = d.SetWriteDeadline(time.Now().Add(silence.reads)) // a pipe has one
	}
	return r.w.Write(b)
}

// greeting is how long the first line may take: ssh has connected by then, and jump
// hosts before it.
const greeting = 30 * time.Second

// firstLine is how long it may take of one that says a little now and then.
var firstLine = greeting + link.Silence

// greet reads the agent's first line.
func (p *process) greet(a link.Agent) (hello link.Hello, err error) {
	refuse := func(format string, args ...any) error {
		m := &host.Missing{What: fmt.Sprintf(format, args...)}
		switch {
		case a.Remedy != nil:
			m.Remedy = [][]string{a.Remedy}
		case hello.Agent == link.Name:
			m.Hint = "install this version there, by boxdyno box update NAME if boxdyno box ls lists it, else by boxdyno box add NAME"
		default:
			m.Hint = "see that " + strings.Join(a.Argv, " ") + " runs by itself and waits for input"
		}
		return m
	}
	late := guard.After(firstLine, func() { p.stdout.Close() })
	defer late.Stop()
	var line []byte
	for begin := time.Now(); ; {
		part, err := p.from.ReadSlice('\n')
		line = append(line, part...)
		if errors.Is(err, os.ErrDeadlineExceeded) && time.Since(begin) < greeting {
			continue
		}
		if err == nil && len(line) < link.MaxHello {
			break
		}
		if errors.Is(err, os.ErrClosed) {
			return hello, refuse("boxdyno-agent on %s (its first line does not end within %v)", a.Name, firstLine)
		}
		if err == nil || errors.Is(err, bufio.ErrBufferFull) {
			err = errors.New("its first line does not end")
		}
		return hello, refuse("boxdyno-agent on %s (%s)", a.Name, p.why(err))
	}
	if err := json.Unmarshal(line, &hello); err != nil || hello.Agent != link.Name {
		return hello, refuse("boxdyno-agent on %s: it answered with something else: %q", a.Name, link.Cut(strings.TrimSpace(string(line)), 80))
	}
	hello.Version = link.Cut(hello.Version, 100)
	if hello.Protocol != link.Protocol || a.Version != "" && hello.Version != a.Version {
		return hello, refuse("the same version on %s: it has %s (protocol %d), and this machine %s (protocol %d)",
			a.Name, hello.Version, hello.Protocol, a.Version, link.Protocol)
	}
	p.greeted.Store(true)
	return hello, nil
}

// why is what the program said last and how it ended; else err.
func (p *process) why(err error) string {
	select {
	case <-p.ended:
	case <-time.After(time.Second):
	}
	why := "its end was closed"
	select {
	case <-p.ended:
		if p.exit != nil {
			why = p.exit.Error()
		}
	default:
		if errors.Is(err, os.ErrDeadlineExceeded) {
			why = fmt.Sprintf("nothing was heard from it for %v", silence.says)
		} else if err != nil && !errors.Is(err, io.EOF) {
			why = err.Error()
		}
	}
	if said := p.stderr.String(); said != "" {
		why = said + " (" + why + ")"
	}
	return why
}

// bridge carries octets between the program and the server until one of them ends.
func (p *process) bridge(srv net.Conn, c *link.Conn) {
	p.copies.Go(func() {
		_, err := io.Copy(srv, p.from)
		c.Fail(fmt.Errorf("the connection to %s ended: %s", c.Name, p.why(err)))
		srv.Close()
		_ = p.stdin.Close() // the agent puts back what it changed
	})
	p.copies.Go(func() {
		_, err := io.Copy(read{p.stdin}, srv) // what else ended it is said by the other direction
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.Fail(fmt.Errorf("the connection to %s ended: it reads nothing of what it was sent %v ago", c.Name, silence.reads))
		}
		_ = p.stdin.Close()
		srv.Close()
	})
}

// lastLine keeps the last line that was written to it.
type lastLine struct {
	mu   sync.Mutex
	text string
}

func (l *lastLine) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(b)
	if trimmed := strings.TrimRight(l.text, "\r\n"); strings.ContainsAny(trimmed, "\r\n") {
		l.text = l.text[strings.LastIndexAny(trimmed, "\r\n")+1:]
	}
	if len(l.text) > 1000 {
		l.text = l.text[len(l.text)-1000:]
	}
	return len(b), nil
}

func (l *lastLine) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(l.text)
}
