// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"boxdyno/fleet"
	"boxdyno/host"
	"boxdyno/internal/files"
	"boxdyno/link"
)

// Accounts of the server.
const (
	account = "FLEET"
	system  = "SYS"
)

// rules are what a NATS server must know of the hub, in the form of its configuration: the
// hub decides who connects (auth callout), and its own two users are known without it.
func (k keys) rules() string {
	return fmt.Sprintf(`accounts {
  %[1]s { users: [ { nkey: %[3]s } ] }
  %[2]s { users: [ { nkey: %[4]s } ] }
}
system_account: %[2]s
authorization {
  timeout: 4
  auth_callout { issuer: %[5]s, account: %[1]s, auth_users: [ %[3]s, %[4]s ] }
}
max_payload: %[6]d
`, account, system, public(k.user), public(k.system), public(k.issuer), fleet.MaxMessage)
}

// Rules is what a NATS server of one's own needs in its configuration beside TLS, for the
// hub of folder, whose keys are made for an owner if there are none.
func Rules(folder string, owner *files.Owner) (string, error) {
	k, err := loadKeys(folder, owner, true)
	if err != nil {
		return "", err
	}
	return k.rules(), nil
}

// serve starts the server of this process at listen, HOST:PORT.
func (k keys) serve(listen string) (*server.Server, string, error) {
	if _, err := k.certificate(); err != nil {
		return nil, "", err
	}
	hostname, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, "", fmt.Errorf("listen at %q: want HOST:PORT, such as 0.0.0.0:4222: %w", listen, err)
	}
	o := &server.Options{}
	text := fmt.Sprintf("%slisten: %s\nserver_name: boxdyno\nping_interval: \"%v\"\nping_max: 3\nwrite_deadline: \"10s\"\nmax_control_line: 4096\ntls { cert_file: %q, key_file: %q, timeout: 20 }\n",
		k.rules(), net.JoinHostPort(hostname, port), link.Heartbeat, filepath.Join(k.folder, certFile), filepath.Join(k.folder, certKeyFile))
	if err := o.ProcessConfigString(text); err != nil {
		return nil, "", fmt.Errorf("set up the NATS server: %w", err)
	}
	o.NoSigs, o.NoLog = true, true
	if port == "0" {
		o.Port = server.RANDOM_PORT
	}
	srv, err := server.NewServer(o)
	if err != nil {
		return nil, "", fmt.Errorf("start the NATS server: %w", err)
	}
	srv.Start()
	if !srv.ReadyForConnections(link.Silence) {
		srv.Shutdown()
		return nil, "", &host.Missing{What: "a place to listen at " + listen, Hint: "another program may listen there: choose another port with --listen"}
	}
	addr := srv.Addr().(*net.TCPAddr)
	reach := hostname
	if ip := net.ParseIP(hostname); hostname == "" || ip != nil && ip.IsUnspecified() {
		reach = "127.0.0.1"
	}
	return srv, fmt.Sprintf("tls://%s", net.JoinHostPort(reach, fmt.Sprint(addr.Port))), nil
}

// connect begins to talk to the server as one of the hub's users.
func (w where) connect(k keys, asSystem bool, more ...nats.Option) (*nats.Conn, error) {
	user, name := k.user, "boxdyno fleet"
	if asSystem {
		user = k.system
	}
	nc, err := nats.Connect(w.URL, append([]nats.Option{
		nats.Name(name), nats.Nkey(public(user), user.Sign), nats.Secure(fleet.TLS(w.pin())),
		nats.Timeout(5 * time.Second), nats.PingInterval(link.Heartbeat), nats.MaxPingsOutstanding(3),
		nats.MaxReconnects(-1), nats.ReconnectWait(200 * time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.ReconnectBufSize(64 << 20), nats.IgnoreAuthErrorAbort(),
	}, more...)...)
	switch {
	case errors.Is(err, nats.ErrAuthorization):
		return nil, &host.Missing{What: "a NATS server at " + w.URL + " that knows this hub", Hint: "put what boxdyno fleet hub --rules prints into its configuration"}
	case err != nil:
		return nil, &host.Missing{What: fmt.Sprintf("the NATS server at %s (%v)", w.URL, err), Hint: "start the hub with boxdyno fleet hub"}
	}
	return nc, nil
}

// kick ends a connection of a board.
func kick(nc *nats.Conn, at connection) error {
	data, err := json.Marshal(struct {
		CID uint64 `json:"cid"`
	}{at.client})
	if err != nil {
		return err
	}
	m, err := nc.Request(fmt.Sprintf("$SYS.REQ.SERVER.%s.KICK", at.server), data, 2*time.Second)
	if err == nil && strings.Contains(string(m.Data), `"error"`) && !strings.Contains(string(m.Data), "no such client") {
		err = fmt.Errorf("the server answers %s", link.Cut(string(m.Data), 200))
	}
	return err
}

// A connection is one of a server.
type connection struct {
	server string
	client uint64
}

// servers is how long they may take to answer, all together.
const servers = 300 * time.Millisecond

// connections are those of a board at all servers.
func connections(nc *nats.Conn, key string) (all []connection, err error) {
	inbox := nc.NewRespInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sub.Unsubscribe()) }()
	data, err := json.Marshal(server.ConnzEventOptions{ConnzOptions: server.ConnzOptions{User: key, Username: true}})
	if err != nil {
		return nil, err
	}
	if err := nc.PublishRequest("$SYS.REQ.SERVER.PING.CONNZ", inbox, data); err != nil {
		return nil, err
	}
	for late := time.Now().Add(servers); ; {
		m, err := sub.NextMsg(time.Until(late))
		if err != nil {
			return all, nil // no more answers
		}
		var answer struct {
			Data server.Connz `json:"data"`
		}
		if err := json.Unmarshal(m.Data, &answer); err != nil {
			return all, fmt.Errorf("a server answers what cannot be read: %w", err)
		}
		for _, c := range answer.Data.Conns {
			all = append(all, connection{answer.Data.ID, c.Cid})
		}
	}
}
