// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/link"
)

// A FileChunk is a part of a file; one without data asks how much is there.
type FileChunk struct {
	SHA256 string `json:"sha256"` // of the whole file, in hexadecimal
	Size   int64  `json:"size"`   // of the whole file, in octets
	Offset int64  `json:"offset"` // where data begins: where the last part ended
	Data   []byte `json:"data,omitempty"`
}

// A FileState is how much of a file is there.
type FileState struct {
	Have int64  `json:"have"`           // octets
	Path string `json:"path,omitempty"` // on the box; set once all is there and the digest is right
}

const (
	chunk    = 1 << 20
	mostFile = 16 << 30
	// reserve is what stays free on the box's disk.
	reserve = 64 << 20
)

// Put sends a file to the agent, which keeps it while the connection lasts. It returns
// the path there. f is read twice.
func Put(ctx context.Context, c *link.Conn, f io.ReadSeeker) (path string, err error) {
	return put(ctx, c, FilePut, chunk, f)
}

// put sends a file by ask, in parts of at most most octets.
func put(ctx context.Context, c *link.Conn, ask Ask[FileChunk, FileState], most int, f io.ReadSeeker) (path string, err error) {
	h := sha256.New()
	size, err := io.Copy(h, f)
	if err != nil {
		return "", fmt.Errorf("read what is sent to %s: %w", c.Name, err)
	}
	part := FileChunk{SHA256: hex.EncodeToString(h.Sum(nil)), Size: size}
	state, err := ask.Call(ctx, c, part)
	have := min(max(state.Have, 0), size) // it may be sent already
	if err == nil && state.Path == "" {
		_, err = f.Seek(have, io.SeekStart)
	}
	buf := make([]byte, most)
	for err == nil && state.Path == "" {
		if state.Have != have {
			return "", fmt.Errorf("send a file to %s: it has %d octets where %d were sent", c.Name, state.Have, have)
		}
		n, rerr := io.ReadFull(f, buf)
		if n == 0 {
			return "", fmt.Errorf("send a file to %s: it became shorter meanwhile (%v)", c.Name, rerr)
		}
		part.Offset, part.Data = have, buf[:n]
		have += int64(n)
		state, err = ask.Call(ctx, c, part)
	}
	return state.Path, err
}

// filesPrefix and a process ID are the name of an agent's files. The number in it is that
// of the agent's process namespace: agents of others cannot be seen, and may live.
func filesPrefix() string {
	space, _ := os.Readlink("/proc/self/ns/pid") // pid:[4026531836]; "": all are taken for one
	return "files-" + strings.Trim(space, "pid:[]") + "-"
}

func (s *Session) filesDir() string {
	return filepath.Join(s.Folder, filesPrefix()+strconv.Itoa(os.Getpid()))
}

// sweep removes the files that agents left which were killed.
func sweep(folder string) {
	entries, _ := os.ReadDir(folder) // there may be none yet
	for _, e := range entries {
		number, ours := strings.CutPrefix(e.Name(), filesPrefix())
		pid, err := strconv.Atoi(number)
		if ours && err == nil && pid > 0 && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			_ = os.RemoveAll(filepath.Join(folder, e.Name())) // the next start tries again
		}
	}
}

// putFile appends a part. Files are named for their digest; they go when the connection
// ends.
func (s *Session) putFile(_ context.Context, a FileChunk) (FileState, error) {
	sum, err := hex.DecodeString(a.SHA256)
	switch {
	case err != nil || len(sum) != sha256.Size:
		return FileState{}, errors.New("keep a file: its SHA-256 is not one")
	case a.Size < 0 || a.Size > mostFile:
		return FileState{}, fmt.Errorf("keep a file: it has %d octets, at most %d are kept", a.Size, int64(mostFile))
	}
	a.SHA256 = hex.EncodeToString(sum) // in one way of writing
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := s.filesDir()
	if len(s.files) == 0 {
		if err := s.ownFolder(); err != nil {
			return FileState{}, err
		}
		// What stands there already is of an agent that had this process ID.
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
			return FileState{}, host.Permit("make the agent's folder", err)
		}
		s.ends = append(s.ends, &ending{func() error { return os.RemoveAll(dir) }})
	}
	have, known := s.files[a.SHA256]
	if !known {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err == nil && int64(st.Bavail)*int64(st.Bsize) < a.Size+reserve {
			return FileState{}, &host.Missing{What: fmt.Sprintf("room for a file of %d MB in %s", a.Size>>20, s.Folder), Hint: "free space on that disk"}
		}
	}
	name := filepath.Join(dir, a.SHA256)
	state := FileState{Have: have}
	if len(a.Data) > 0 {
		if a.Offset != have || have+int64(len(a.Data)) > a.Size {
			return state, fmt.Errorf("keep a file: a part begins at octet %d, %d are there of %d", a.Offset, have, a.Size)
		}
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return state, err
		}
		_, err = f.WriteAt(a.Data, a.Offset)
		if err = errors.Join(err, f.Close()); err != nil {
			return state, fmt.Errorf("keep a file: %w", err)
		}
		state.Have += int64(len(a.Data))
	} else if a.Size == 0 && !known {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			return state, fmt.Errorf("keep a file: %w", err)
		}
	}
	s.files[a.SHA256] = state.Have
	if state.Have < a.Size {
		return state, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return state, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return state, err
	}
	if !bytes.Equal(h.Sum(nil), sum) {
		delete(s.files, a.SHA256)
		return FileState{}, errors.New("keep a file: its SHA-256 is another than was said: it changed on the way")
	}
	s.whole[a.SHA256] = true
	state.Path = name
	return state, nil
}
