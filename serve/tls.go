// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"boxdyno/internal/files"
)

// The certificate that is made where none is given.
const (
	certFile = "cert.pem"
	keyFile  = "key.pem"
	certDays = 3650
)

// OwnCertificate reads the certificate in a folder, and makes one for the names and
// addresses of this machine at the first start, signed by itself. What is made belongs to
// an owner (nil: this user); others cannot read the key.
func OwnCertificate(dir string, o *files.Owner, names []string) (pair tls.Certificate, made bool, err error) {
	cert, key := filepath.Join(dir, certFile), filepath.Join(dir, keyFile)
	certPEM, err := files.Read(cert, 1<<20)
	if err == nil {
		var keyPEM []byte
		if keyPEM, err = files.Read(key, 1<<20); err == nil {
			pair, err = tls.X509KeyPair(certPEM, keyPEM)
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			err = fmt.Errorf("read the certificate in %s: %w: remove both files, and serve makes new ones", dir, err)
		}
		return pair, false, err
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair, false, fmt.Errorf("make a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return pair, false, fmt.Errorf("make a key: %w", err)
	}
	now := time.Now()
	t := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "boxdyno serve"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(0, 0, certDays),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, DNSNames: append([]string{"localhost"}, names...),
	}
	addrs, _ := net.InterfaceAddrs() // without them there are names
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok {
			t.IPAddresses = append(t.IPAddresses, ip.IP)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &private.PublicKey, private)
	if err != nil {
		return pair, false, fmt.Errorf("make a certificate: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return pair, false, fmt.Errorf("make a certificate: %w", err)
	}
	certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	folder, err := files.MakeFolder(dir, o)
	if err != nil {
		return pair, false, fmt.Errorf("keep the certificate: %w", err)
	}
	defer folder.Close()
	write := func(name string, mode os.FileMode, data []byte) error {
		return folder.Replace(name, func(f *os.File) error {
			if err := f.Chmod(mode); err != nil {
				return err
			}
			_, err := f.Write(data)
			return err
		})
	}
	if err := errors.Join(write(keyFile, 0o600, keyPEM), write(certFile, 0o644, certPEM)); err != nil {
		return pair, false, fmt.Errorf("keep the certificate: %w", err)
	}
	pair, err = tls.X509KeyPair(certPEM, keyPEM)
	return pair, true, err
}
