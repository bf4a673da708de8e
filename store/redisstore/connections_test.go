package redisstore_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/redistest"
	"github.com/keyturn/keyturn/internal/servertest"
	"github.com/keyturn/keyturn/store/redisstore"
)

// TestConnections: the store does all that it does on any connection that go-redis makes, with the
// subscription for messages, too. Other tests have RESP3.
func TestConnections(t *testing.T) {
	t.Parallel()
	t.Run("RESP2", func(t *testing.T) {
		t.Parallel()
		connects(t, database(t), func(o *redis.Options) { o.Protocol = 2 })
	})
	// As many managed services have it.
	t.Run("TLS, and a user without INFO and CONFIG", func(t *testing.T) {
		t.Parallel()
		server, connect := startTLS(t)
		server.SetUser(t, "on >pw resetkeys resetchannels -@all", aclKeys, aclChannels, aclCommands, aclMessages)
		connects(t, server, connect, func(o *redis.Options) { o.Username, o.Password = "keyturn", "pw" })
		noneIsMissed(t, server)
	})
}

func connects(t *testing.T, server *redistest.Server, opts ...func(*redis.Options)) {
	t.Helper()
	a, b := open(t, server.Client(opts...)), open(t, server.Client(opts...))
	useEverything(t, a, b)
	wantIs(t, "Check", a.Check(within(t, 5*time.Second)), nil)
}

// TestRotatedCertificate: the certificate of the server changes under a running store, as docs/operations.md says. No
// caller notices, and no lease is lost. A client that does not know the new authority gets an error that says so.
func TestRotatedCertificate(t *testing.T) {
	servertest.LongParallel(t)
	server, connect := startTLS(t)
	cert, key, roots := certificate(t)
	text, err := os.ReadFile(cert)
	must(t, err)
	first := server.Client(connect, func(o *redis.Options) {
		o.PoolSize = 1000 // after so many failed dials, go-redis keeps a goroutine that outlives the client by a second
	})
	both := server.Client(connect, func(o *redis.Options) {
		o.TLSConfig.RootCAs = o.TLSConfig.RootCAs.Clone()
		o.TLSConfig.RootCAs.AppendCertsFromPEM(text)
	})
	c, old := startTwo(t, both), startTwo(t, first)
	held := acquire(t, c[0], "held")
	wantNil(t, errors.Join(c.work(), old.work()))
	admin := server.Client()
	for _, command := range [][]any{
		{"config", "set", "tls-cert-file", cert, "tls-key-file", key, "tls-ca-cert-file", cert},
		{"client", "kill", "user", "default", "skipme", "yes"},
	} {
		must(t, admin.Do(t.Context(), command...).Err())
	}
	newOnly := server.Client(connect, func(o *redis.Options) { o.TLSConfig.RootCAs = roots })
	wantIs(t, "with the new certificate", errors.Join(newOnly.Ping(t.Context()).Err(), c.work(), held.Err()), nil)
	var unknown x509.UnknownAuthorityError
	err = old.work()
	check(t, errors.Is(err, core.ErrUnavailable) && errors.As(err, &unknown), "a client that does not know the new authority: %v", err)
}

func startTLS(t *testing.T) (*redistest.Server, func(*redis.Options)) {
	port, err := servertest.FreePort()
	must(t, err)
	cert, key, roots := certificate(t)
	server := redistest.Start(t, "--tls-port", strconv.Itoa(port), "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", cert, "--tls-auth-clients", "no")
	return server, func(o *redis.Options) {
		o.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		o.TLSConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
}

// certificate makes one for the loopback interface, and returns the files with it and its key.
func certificate(t *testing.T) (certFile, keyFile string, roots *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	dir := t.TempDir()
	write := func(name, kind string, der []byte) (file string, text []byte) {
		file, text = filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		must(t, os.WriteFile(file, text, 0o600))
		return file, text
	}
	certFile, text := write("cert.pem", "CERTIFICATE", cert)
	keyFile, _ = write("key.pem", "PRIVATE KEY", secret)
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	return certFile, keyFile, roots
}

// TestRotatedPassword: the password of the user changes under a running store, as docs/operations.md
// says. No caller notices, no lease is lost, and messages arrive on a new connection.
func TestRotatedPassword(t *testing.T) {
	servertest.LongParallel(t)
	var password atomic.Pointer[string]
	knows := func(pw string) { password.Store(&pw) }
	knows("pw")
	server := redistest.Start(t)
	client := server.Client(func(o *redis.Options) {
		o.CredentialsProvider = func() (string, string) { return "keyturn", *password.Load() }
	})
	disconnect := func() { must(t, server.Client().Do(t.Context(), "client", "kill", "user", "keyturn").Err()) }
	server.SetUser(t, "on >pw resetkeys resetchannels -@all", aclKeys, aclChannels, aclCommands, aclMessages)
	c := startTwo(t, client)
	held := acquire(t, c[0], "held")
	work := func() {
		t.Helper()
		wantNil(t, c.work())
	}
	work()
	server.SetUser(t, ">new")
	work()
	knows("new")
	work()
	server.SetUser(t, "<pw")
	work()
	disconnect() // connections stay what they were when they were made
	work()
	wantIs(t, "a lease that was held all the time", held.Err(), nil)

	// The other way round: the servers change first. Callers get an error that says what is
	// wrong, and none after the client knows the password.
	server.SetUser(t, "resetpass >third")
	disconnect()
	err := c.work()
	check(t, errors.Is(err, core.ErrUnavailable) && strings.Contains(err.Error(), "WRONGPASS"), "with an old password: %v", err)
	knows("third")
	eventually(t, 10*time.Second, "the store works again", func() bool { return c.work() == nil })
}

// twoProcesses want the same keys.
type twoProcesses [2]*core.Engine

func startTwo(t *testing.T, client redis.UniversalClient) (two twoProcesses) {
	for i := range two {
		// A waiter that gets no message would ask after 10 s, and its caller has given up by then.
		patient := redisstore.WithWaiterLease(30 * time.Second)
		two[i] = engine(t, open(t, client, patient), core.WithTTL(6*time.Second), core.WithMaxWait(5*time.Second))
	}
	return two
}

// work has callers of both processes take turns for a while. It returns what went wrong.
func (two twoProcesses) work() (all error) {
	errs := make(chan error, 8)
	for i := range cap(errs) {
		go func() {
			var err error
			for n := 0; n < 20 && err == nil; n++ {
				err = two[i%2].Do(bg, fmt.Sprint("k", (i/2+n)%3), func(context.Context) error {
					time.Sleep(time.Millisecond)
					return nil
				})
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		all = errors.Join(all, <-errs)
	}
	return all
}
