package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/store/natsstore"
)

// natsServer is a NATS in this process, the real one: only its connections are simulated. Its stream is
// in memory, because a bubble in which somebody waits for the disk may not do the same again.
type natsServer struct {
	*host
	simple
	dir    string
	nats   *natsd.Server
	client *nats.Conn // the simulator's own
	js     jetstream.JetStream
}

func newNATS() (s *natsServer, err error) {
	s = &natsServer{host: &host{}}
	s.program = s
	if s.dir, err = os.MkdirTemp("", "keyturn-sim-"); err != nil {
		return nil, err
	}
	if s.nats, err = natsd.NewServer(&natsd.Options{DontListen: true, JetStream: true, StoreDir: s.dir, NoLog: true, NoSigs: true}); err != nil {
		return nil, err
	}
	s.nats.Start()
	if !s.nats.ReadyForConnections(time.Minute) {
		return nil, errors.New("the NATS server does not start")
	}
	if s.client, err = nats.Connect("", nats.InProcessServer(s.nats)); err != nil {
		return nil, err
	}
	if s.js, err = jetstream.New(s.client); err != nil {
		return nil, err
	}
	return s, s.makeBucket()
}

const bucket = "KV_keyturn"

// makeBucket makes the bucket as an administrator does.
func (s *natsServer) makeBucket() error {
	_, err := s.js.CreateStream(context.Background(), jetstream.StreamConfig{
		Name: bucket, Subjects: []string{"$KV.keyturn.>"}, MaxMsgsPerSubject: 1, Storage: jetstream.MemoryStorage,
		Discard: jetstream.DiscardNew, AllowMsgTTL: true, AllowAtomicPublish: true,
	})
	return err
}

func (s *natsServer) stop() {
	s.client.Close()
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
	_ = os.RemoveAll(s.dir)
}

// erase has it lose the bucket.
func (s *natsServer) erase() {
	if err := errors.Join(s.js.DeleteStream(context.Background(), bucket), s.makeBucket()); err != nil {
		panic(err) // nothing is between the server and this client
	}
}

// writes implements program.
func (*natsServer) writes(data []byte) bool { return bytes.HasPrefix(data, []byte("HPUB $KV.")) }

// serve implements program. The server takes a connection only from its own pipe.
func (s *natsServer) serve(c net.Conn) {
	pipe, err := s.nats.InProcessConn()
	if err != nil {
		_ = c.Close() // it is going down
		return
	}
	join := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}
	go join(pipe, c)
	go join(c, pipe)
}

// left returns what is in the bucket when all that goes by itself has gone.
func (s *natsServer) left() []string {
	time.Sleep(75 * time.Minute) // the reason of a forced release stays for an hour, and then ten minutes
	stream, err := s.js.Stream(context.Background(), bucket)
	if err != nil {
		return []string{err.Error()}
	}
	info, err := stream.Info(context.Background(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		return []string{err.Error()}
	}
	return slices.Sorted(maps.Keys(info.State.Subjects))
}

// stopNATSClock has the clock by which the servers of this program note when something was read be a
// bubble's in which time stands still, until the returned function is called. A bubble can't use it
// otherwise: it has a channel that was made outside.
func stopNATSClock(t *testing.T) (end func()) {
	begun, over, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		synctest.Test(t, func(*testing.T) {
			ats.Register()
			close(begun)
			<-over
			ats.Unregister()
		})
	}()
	<-begun
	return func() { close(over); <-ended }
}

// dialer is a way for the client, which holds a mutex while it makes a connection: see link.greets.
type dialer struct{ *way }

// Dial implements nats.CustomDialer.
func (d dialer) Dial(string, string) (net.Conn, error) { return d.greet() }

func (f *fleet) bootNATS() (err error) {
	if f.nats, err = newNATS(); err != nil {
		return err
	}
	f.has(f.nats.host, f.nats.erase, f.nats.left, f.nats.stop)
	return nil
}

// openNATS makes the natsstore of a process.
func (f *fleet) openNATS(p *process) (driver.Store, func(), error) {
	w := f.way(p, 0)
	nc, err := nats.Connect("nats://192.0.2.1:4222", nats.SetCustomDialer(dialer{w}), nats.Name(fmt.Sprint("process ", p.nr)),
		nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0), nats.RetryOnFailedConnect(true),
		nats.Timeout(time.Second), nats.PingInterval(500*time.Millisecond))
	if err != nil {
		return nil, nil, err
	}
	store, err := natsstore.New(nc, natsstore.WithWaiterLease(waiterLease), natsstore.WithLogger(silent))
	return store, nc.Close, err
}

// kindsOfNATS are those of a fleet with natsstore.
var kindsOfNATS = slices.Concat(kindsOfProcesses, []kind{
	empty,
}, kindsOfHost, kindsOfNetwork)
