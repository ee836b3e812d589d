// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nkeys"

	"boxdyno/fleet"
	"boxdyno/host"
	"boxdyno/internal/files"
)

// Files of a hub's folder.
const (
	issuerFile   = "issuer.seed" // signs orders, and admits boards
	userFile     = "user.seed"   // of the hub's and its commands' own connections
	systemFile   = "system.seed" // that ends connections of boards
	certFile     = "cert.pem"
	certKeyFile  = "cert-key.pem"
	whereFile    = "hub.json"
	registryFile = "registry.jsonl"
	lockFile     = "hub.lock" // of the hub that runs
)

// keys are a hub's own.
type keys struct {
	folder               string
	owner                *files.Owner // of what is made; nil: this user
	issuer, user, system nkeys.KeyPair
}

// loadKeys reads the keys of a hub's folder, and makes those that are not there if mk.
func loadKeys(folder string, o *files.Owner, mk bool) (k keys, err error) {
	k.folder, k.owner = folder, o
	if mk {
		made, err := files.MakePrivateFolder(folder, o)
		if err != nil {
			return k, host.Permit("make the hub's folder", err)
		}
		_ = made.Close() // only a path was held
	}
	info, err := os.Stat(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return k, &host.Missing{What: "a hub in " + folder, Hint: "start one with boxdyno fleet hub"}
	case err != nil:
		return k, host.Permit("read the hub's folder", err)
	case info.Mode().Perm()&0o077 != 0:
		return k, fmt.Errorf("others may look into %s, which holds the hub's keys: chmod 700 it", folder)
	}
	for name, to := range map[string]*nkeys.KeyPair{issuerFile: &k.issuer, userFile: &k.user, systemFile: &k.system} {
		create := nkeys.CreateUser
		if name == issuerFile {
			create = nkeys.CreateAccount
		}
		if *to, err = k.key(name, create, mk); err != nil {
			return k, err
		}
	}
	return k, nil
}

func (k keys) key(name string, create func() (nkeys.KeyPair, error), mk bool) (nkeys.KeyPair, error) {
	path := filepath.Join(k.folder, name)
	seed, err := files.Read(path, 256)
	if err == nil {
		key, err := nkeys.FromSeed(seed)
		if err != nil {
			return nil, fmt.Errorf("%s holds no key: %w", path, err)
		}
		return key, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, host.Permit("read the hub's key", err)
	}
	if !mk {
		return nil, &host.Missing{What: "a hub in " + k.folder, Hint: "start one with boxdyno fleet hub"}
	}
	key, err := create()
	if err == nil {
		seed, err = key.Seed()
	}
	if err == nil {
		err = k.keep(name, seed)
	}
	return key, err
}

func (k keys) keep(name string, data []byte) error {
	return files.Replace(filepath.Join(k.folder, name), k.owner, func(f *os.File) error {
		_, err := f.Write(data)
		return errors.Join(err, f.Chmod(0o600))
	})
}

func public(key nkeys.KeyPair) string {
	p, _ := key.PublicKey() // a pair has one
	return p
}

// certificate makes the hub's certificate if there is none, and returns its pin. Boards
// know it by the pin alone.
func (k keys) certificate() (pin [32]byte, err error) {
	data, err := files.Read(filepath.Join(k.folder, certFile), 64<<10)
	if errors.Is(err, fs.ErrNotExist) {
		if err = k.newCertificate(); err == nil {
			data, err = files.Read(filepath.Join(k.folder, certFile), 64<<10)
		}
	}
	if err != nil {
		return pin, fmt.Errorf("the hub's certificate: %w", err)
	}
	return pinOf(data)
}

// pinOf is the pin of the first certificate of a PEM file.
func pinOf(data []byte) (pin [32]byte, err error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return pin, errors.New("the file holds no certificate in PEM form")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return pin, fmt.Errorf("read a certificate: %w", err)
	}
	return fleet.Pin(cert), nil
}

func (k keys) newCertificate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	cert := x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "boxdyno fleet hub"}, DNSNames: []string{"boxdyno-fleet-hub"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(20, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &cert, &cert, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := k.keep(certKeyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})); err != nil {
		return err
	}
	return k.keep(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// where says how commands of this machine reach the server, and boards elsewhere.
type where struct {
	URL    string `json:"url"`
	Boards string `json:"boards"` // the URL that boards are given
	Pin    []byte `json:"pin"`
}

func (w where) pin() (pin [32]byte) {
	copy(pin[:], w.Pin)
	return pin
}

func (k keys) where() (w where, err error) {
	data, err := files.Read(filepath.Join(k.folder, whereFile), 64<<10)
	if errors.Is(err, fs.ErrNotExist) {
		return w, &host.Missing{What: "a hub that was started in " + k.folder, Hint: "start it with boxdyno fleet hub"}
	}
	if err == nil {
		err = json.Unmarshal(data, &w)
	}
	if err == nil {
		_, err = url.Parse(w.URL)
	}
	if err != nil {
		return w, fmt.Errorf("read where the hub is: %w", err)
	}
	return w, nil
}
