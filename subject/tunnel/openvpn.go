// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/subject/internal/program"
	"boxdyno/unit"
)

// openVPN is two OpenVPN 2.6 (or later) that know each other by the fingerprints of
// their certificates, which are made anew; TLS agrees on the keys, and packets are
// enciphered by an AEAD cipher in the program.
var openVPN = tunnelKind{
	name: "openvpn", doc: "OpenVPN over TLS, packets enciphered in the program", ciphers: openVPNCiphers,
	check: func(_ context.Context, h *host.Local, _ string) error { return errors.Join(h.Has("openvpn"), hasTun()) },
	keys:  certificates,
	open:  func(ctx context.Context, h *Half) error { return openOpenVPN(ctx, h, false) },
	last:  true, // the server first: a client waits a second before it tries again
	// It works off its TLS session at every packet for two seconds after it last did
	// something there (TLS_MULTI_HORIZON in its ssl.h), in whole seconds of its clock.
	settles: 3 * time.Second,
}

// openVPNDCO is the same with OpenVPN's data channel in the kernel.
var openVPNDCO = tunnelKind{
	name: "openvpn-dco", doc: "OpenVPN over TLS, packets enciphered in the kernel (data channel offload)", ciphers: openVPNCiphers,
	check: checkDCO,
	keys:  certificates,
	open:  func(ctx context.Context, h *Half) error { return openOpenVPN(ctx, h, true) },
	last:  true,
}

var openVPNCiphers = []string{"aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"}

// dcoKinds are the kinds of device that OpenVPN makes with data channel offload: of
// the module of its own, and of Linux 6.16 and later.
var dcoKinds = []string{"ovpn-dco", "ovpn"}

// checkDCO makes a device of such a kind and takes it away.
func checkDCO(_ context.Context, h *host.Local, _ string) error {
	if err := h.Has("openvpn"); err != nil {
		return err
	}
	var made bool
	err := h.View(func(fs.FS) (err error) {
		for _, kind := range dcoKinds {
			attrs := netlink.NewLinkAttrs()
			attrs.Name = tunnelDevice
			l := &netlink.GenericLink{LinkAttrs: attrs, LinkType: kind}
			if err = netlink.LinkAdd(l); err == nil {
				made = true
				return netlink.LinkDel(l)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("take a device of data channel offload away: %w", err)
	}
	if !made {
		missing := &host.Missing{What: "OpenVPN's data channel offload in this kernel"}
		if takesModules() {
			missing.Remedy = [][]string{{"apt-get", "install", "-y", "openvpn-dco-dkms"}, {"modprobe", "ovpn-dco-v2"}}
		} else {
			missing.Hint = "boot a kernel that takes modules, such as Debian's, whose package openvpn-dco-dkms makes this one"
		}
		return missing
	}
	return nil
}

// takesModules says whether this kernel is a distribution's, with modules of its own.
func takesModules() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	_, err := os.Stat(filepath.Join("/lib/modules", unix.ByteSliceToString(u.Release[:])))
	return err == nil
}

const openVPNPort = "1194"

// openOpenVPN starts end 1 as the server, and end 0 as its client.
func openOpenVPN(ctx context.Context, h *Half, offload bool) (err error) {
	h.driver = openVPNVersion(ctx, h.at)
	if offload {
		h.driver += ", data channel in the kernel"
	}
	dir, err := host.MakeScratch()
	if err != nil {
		return err
	}
	h.undo = append(h.undo, func() error { return os.RemoveAll(dir) })
	if offload {
		h.undo = append(h.undo, func() error { return removeDevice(h.at) })
	}
	for name, data := range map[string][]byte{certificateFile: h.Keys.Certificate, keyFile: h.Keys.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return fmt.Errorf("write what OpenVPN reads: %w", err)
		}
	}
	c := host.Cmd{Argv: openVPNArgs(h, offload), Dir: dir}
	if h.End == 1 {
		c.Scratch = []string{dir} // the client is started anew for a handshake
	}
	if err := h.startDaemon(ctx, c); err != nil {
		return err
	}
	client := h.daemon
	if h.End == 0 {
		h.fresh = func(ctx context.Context) (begun unit.Instant, err error) {
			if err := client.kill(); err != nil {
				return begun, err
			}
			if offload { // the device outlives its program, and its session with it
				if err := removeDevice(h.at); err != nil {
					return begun, err
				}
			}
			if err := client.start(ctx); err != nil {
				return begun, err
			}
			begun = unit.Now() // boxdyno's own work of starting it is done
			return begun, h.joinOpenVPN(ctx, offload)
		}
	}
	return h.joinOpenVPN(ctx, offload)
}

// joinOpenVPN waits for the device of the program, which must be the kernel's own where
// the data channel is offloaded, and sets it up.
func (h *Half) joinOpenVPN(ctx context.Context, offload bool) error {
	kind, err := h.awaitDevice(ctx)
	if err != nil {
		return fmt.Errorf("openvpn: %w", err)
	}
	if offload && kind == "tun" {
		return &host.Missing{What: "data channel offload in this OpenVPN, which made a device of kind tun", Hint: "install one that is built with it"}
	}
	return h.join()
}

const certificateFile, keyFile = "cert.pem", "key.pem"

func openVPNArgs(h *Half, offload bool) []string {
	argv := []string{"openvpn", "--dev", tunnelDevice, "--dev-type", "tun", "--proto", "udp4",
		"--local", h.own().Outer.String(), "--lport", openVPNPort, "--remote", h.other().Outer.String(), openVPNPort,
		"--cert", certificateFile, "--key", keyFile, "--peer-fingerprint", h.Keys.Fingerprint,
		"--data-ciphers", strings.ToUpper(h.Cipher), "--tls-version-min", "1.2",
		"--tun-mtu", fmt.Sprint(MTU), "--mssfix", "0", "--persist-tun", "--persist-key", "--verb", "3"}
	// Its own addresses are of no use here: the networks are routed to the device.
	own := [2]string{"192.0.2.129", "192.0.2.130"}
	argv = append(argv, "--ifconfig", own[h.End], own[1-h.End], "--ifconfig-noexec")
	if h.End == 0 {
		argv = append(argv, "--tls-client")
	} else {
		argv = append(argv, "--tls-server", "--dh", "none")
	}
	if !offload {
		argv = append(argv, "--disable-dco")
	}
	return argv
}

// certificates are both ends', made anew.
func certificates(string) ([2]Keys, error) {
	var made [2]certificate
	for i := range made {
		var err error
		if made[i], err = makeCertificate(fmt.Sprintf("gateway %d", i)); err != nil {
			return [2]Keys{}, err
		}
	}
	return keyPairs(func(i int) (Keys, error) {
		return Keys{Certificate: made[i].cert, Key: made[i].key, Fingerprint: made[1-i].fingerprint}, nil
	})
}

// A certificate is one that signs itself, with its key.
type certificate struct {
	cert, key   []byte // PEM
	fingerprint string // SHA-256, as OpenVPN takes it
}

func makeCertificate(name string) (c certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, fmt.Errorf("make a key: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(30 * 24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return c, fmt.Errorf("make a certificate: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return c, fmt.Errorf("write a key: %w", err)
	}
	c.cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	c.key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	sum := sha256.Sum256(der)
	var hex []string
	for _, b := range sum {
		hex = append(hex, fmt.Sprintf("%02X", b))
	}
	c.fingerprint = strings.Join(hex, ":")
	return c, nil
}

// openVPNVersion is "OpenVPN 2.6.14, OpenSSL 3.0.22": what enciphers is the library.
func openVPNVersion(ctx context.Context, h *host.Local) string {
	version, library := "OpenVPN of an unknown version", ""
	out, _ := program.Within(ctx, h, program.VersionPatience, "", "openvpn", "--version") // else its version is not known
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) > 1 && f[0] == "OpenVPN" {
			version = "OpenVPN " + f[1]
		}
		if rest, ok := strings.CutPrefix(line, "library versions: "); ok {
			library, _, _ = strings.Cut(rest, ",")
			library = strings.Join(strings.Fields(library)[:min(2, len(strings.Fields(library)))], " ")
		}
	}
	if library != "" {
		version += ", " + library
	}
	return version
}
