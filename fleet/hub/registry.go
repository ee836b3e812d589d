// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/fleet"
	"boxdyno/host"
	"boxdyno/internal/files"
)

// Bounds of a registry.
const (
	mostRegistry = 256 << 20 // octets
	mostBoards   = 100_000
	mostGroups   = 32
)

// A Board is one of a fleet, as its hub keeps it.
type Board struct {
	Name    string    `json:"name"`
	Key     string    `json:"key"` // its public nkey
	Groups  []string  `json:"groups,omitempty"`
	SSH     string    `json:"ssh,omitempty"` // that it was enrolled by; "": it joined by itself
	Joined  time.Time `json:"joined"`
	Revoked time.Time `json:"revoked,omitzero"`
}

// A ticket is a token that was made, by the hash of its secret.
type ticket struct {
	Hash    string    `json:"hash"`
	Name    string    `json:"name,omitempty"` // of the board; "": as it calls itself
	Groups  []string  `json:"groups,omitempty"`
	SSH     string    `json:"ssh,omitempty"`
	Expires time.Time `json:"expires"`
	Used    string    `json:"used,omitempty"` // by the board of that key
}

// A line of the registry's file. The last one of a board, or of a ticket, counts.
type line struct {
	Board  *Board  `json:"board,omitempty"`
	Ticket *ticket `json:"ticket,omitempty"`
}

// A registry is what a hub knows of its boards.
type registry struct {
	lock    *os.File // of lockFile: the registry's own is replaced when it is opened
	file    *os.File
	boards  map[string]*Board // by key
	tickets map[string]*ticket
}

// openRegistry reads the registry, drops what does not count any more, and keeps it open.
// One that another hub has open is a *host.Missing, and stays as it is.
func openRegistry(k keys) (_ *registry, err error) {
	path := filepath.Join(k.folder, registryFile)
	r := &registry{boards: map[string]*Board{}, tickets: map[string]*ticket{}}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	folder, err := files.OpenFolder(k.folder, k.owner)
	if err != nil {
		return nil, host.Permit("lock the hub's folder", err)
	}
	defer folder.Close()
	if r.lock, err = folder.Append(lockFile, true); err != nil {
		return nil, host.Permit("lock the hub's folder", err)
	}
	if err := unix.Flock(int(r.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, &host.Missing{What: "a folder that no other hub uses: one runs in " + k.folder, Hint: "stop that one, or name another --folder"}
	}
	data, err := files.Read(path, mostRegistry)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the fleet's boards: %w", err)
	}
	scan := bufio.NewScanner(bytes.NewReader(data))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var l line
		if json.Unmarshal(scan.Bytes(), &l) != nil {
			continue // cut by a crash: it was not answered for
		}
		if l.Board != nil {
			r.boards[l.Board.Key] = l.Board
		}
		if l.Ticket != nil {
			r.tickets[l.Ticket.Hash] = l.Ticket
		}
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("read the fleet's boards: %w", err)
	}
	var all bytes.Buffer
	enc := json.NewEncoder(&all)
	for _, b := range r.boards {
		_ = enc.Encode(line{Board: b}) // into memory
	}
	for hash, t := range r.tickets {
		if time.Since(t.Expires) > 24*time.Hour {
			delete(r.tickets, hash)
			continue
		}
		_ = enc.Encode(line{Ticket: t})
	}
	if err := k.keep(registryFile, all.Bytes()); err != nil {
		return nil, fmt.Errorf("keep the fleet's boards: %w", err)
	}
	if r.file, err = folder.Append(registryFile, false); err != nil {
		return nil, fmt.Errorf("keep the fleet's boards: %w", err)
	}
	return r, nil
}

// close lets another hub have the registry. Each line is on the disk already.
func (r *registry) close() {
	for _, f := range []*os.File{r.file, r.lock} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// write keeps lines; they are on the disk when it returns.
func (r *registry) write(lines ...line) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, l := range lines {
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	_, err := r.file.Write(b.Bytes())
	if err == nil {
		err = r.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("keep the fleet's boards: %w", err)
	}
	return nil
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// TokenArgs say whom a token is for.
type TokenArgs struct {
	Names  []string      `json:"names,omitempty"`  // of boards, one token each; none: one token, and the board's own name
	Groups []string      `json:"groups,omitempty"` // that they are in
	SSH    []string      `json:"ssh,omitempty"`    // that they are enrolled by, one each
	Lasts  time.Duration `json:"lasts"`
}

// mostLasts is how long a token may last.
const mostLasts = 30 * 24 * time.Hour

// token makes tokens.
func (r *registry) token(a TokenArgs, pin, hub [32]byte, now time.Time) ([]string, error) {
	names := a.Names
	if len(names) == 0 {
		names = []string{""}
	}
	if a.Lasts <= 0 || a.Lasts > mostLasts {
		return nil, fmt.Errorf("a token that lasts %v: want more than 0, at most %v", a.Lasts, mostLasts)
	}
	if len(names) > mostBoards || len(a.Groups) > mostGroups {
		return nil, fmt.Errorf("at most %d boards and %d groups", mostBoards, mostGroups)
	}
	for _, n := range append(slices.Clone(a.Groups), a.Names...) {
		if !plainName.MatchString(n) {
			return nil, fmt.Errorf("name %q: letters, digits, dots and dashes only, at most 63", n)
		}
	}
	var tokens []string
	var lines []line
	for i, name := range names {
		t := fleet.Token{Pin: pin, Hub: hub}
		_, _ = rand.Read(t.Secret[:]) // it never fails
		x := &ticket{Hash: hashOf(t.Password()), Name: name, Groups: a.Groups, Expires: now.Add(a.Lasts)}
		if i < len(a.SSH) {
			x.SSH = a.SSH[i]
		}
		tokens, lines = append(tokens, t.String()), append(lines, line{Ticket: x})
	}
	if err := r.write(lines...); err != nil {
		return nil, err
	}
	for _, l := range lines {
		r.tickets[l.Ticket.Hash] = l.Ticket
	}
	return tokens, nil
}

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// admit makes the owner of key a board by a token's secret. A board that comes again with
// the token that it used is admitted again.
func (r *registry) admit(key, secret, name string, now time.Time) (*Board, error) {
	t := r.tickets[hashOf(secret)]
	known := r.boards[key]
	switch {
	case t == nil:
		return nil, errors.New("its token is none of this hub")
	case known != nil && !known.Revoked.IsZero():
		return nil, errors.New("it was revoked, and its key is not taken again: remove fleet.seed on the board")
	case t.Used == key && known != nil:
		return known, nil
	case t.Used != "":
		return nil, errors.New("its token was used before")
	case now.After(t.Expires):
		return nil, errors.New("its token has expired")
	case known == nil && len(r.boards) >= mostBoards:
		return nil, fmt.Errorf("there are %d boards, and no more are admitted", mostBoards)
	}
	b := &Board{Key: key, Groups: t.Groups, SSH: t.SSH, Joined: now.UTC()}
	for _, want := range []string{t.Name, strings.ToLower(name), "board"} {
		if plainName.MatchString(want) {
			b.Name = r.free(want, key)
			break
		}
	}
	used := *t
	used.Used = key
	if err := r.write(line{Board: b, Ticket: &used}); err != nil {
		return nil, err
	}
	r.boards[key], r.tickets[t.Hash] = b, &used
	return b, nil
}

// free is name, or the next one that no other board has.
func (r *registry) free(name, key string) string {
	taken := map[string]bool{}
	for _, b := range r.boards {
		if b.Key != key && b.Revoked.IsZero() {
			taken[b.Name] = true
		}
	}
	free := name
	for n := 2; taken[free]; n++ {
		free = fmt.Sprintf("%s-%d", name[:min(len(name), 56)], n)
	}
	return free
}

// revoke ends what a board may do.
func (r *registry) revoke(name string, now time.Time) (*Board, error) {
	for _, b := range r.boards {
		if b.Name != name || !b.Revoked.IsZero() {
			continue
		}
		gone := *b
		gone.Revoked = now.UTC()
		if err := r.write(line{Board: &gone}); err != nil {
			return nil, err
		}
		r.boards[b.Key] = &gone
		return &gone, nil
	}
	return nil, fmt.Errorf("there is no board %q: see boxdyno fleet ls", name)
}
