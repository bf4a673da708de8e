package zkstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/keyturn/keyturn/internal/casstore"
	"github.com/keyturn/keyturn/internal/waitloop"
)

// patience is how long a request waits for a session, unless it waits for a lock: such a request has
// its place for as long as the session may come back. The loss of a server is mostly over by then, if
// the others elect a leader: the client goes to another server at once.
const patience = 3 * time.Second

// link keeps a session with the ensemble.
//
// The client renews its connection by itself, and never gives up a session. But a server refuses a
// client that has seen later transactions than its own, and after the restore of a backup all
// servers do, for as long as the process lives. So a client that has been without a session for
// longer than the session's timeout is replaced by a new one, which has seen nothing.
type link struct {
	cfg  *config
	life context.Context
	wake func(path string) // called when a watch of the client has fired, or has ended with its session

	mu      sync.Mutex
	peer    *peer         // the present client
	ready   bool          // it has a session, and is authenticated
	changed chan struct{} // closed and replaced when ready has changed
	why     error         // why there is no session

	nudge waitloop.Bell // for the keeper
}

// peer is a client of ZooKeeper, with what was learned by its sessions.
type peer struct {
	*zk.Conn
	clock   clock
	cache   *casstore.Recent[cachedLock] // the locks as this client left them
	net     *network
	ended   <-chan zk.Event // closed at the end of the client
	session bool            // it has one
	id      int64           // of the last one
	authed  bool
	since   time.Time // the session was lost, or is asked for

	heard atomic.Int64 // when the leader answered last, in ns since 1970
}

// Multi notes that the servers have carried out a write, or have refused it.
func (p *peer) Multi(ops ...op) ([]zk.MultiResponse, error) {
	res, err := p.Conn.Multi(ops...)
	p.note(err)
	return res, err
}

// Sync notes that the leader has answered.
func (p *peer) Sync(path string) (string, error) {
	res, err := p.Conn.Sync(path)
	p.note(err)
	return res, err
}

func (p *peer) note(err error) {
	if !isBroken(err) {
		p.heard.Store(time.Now().UnixNano())
	}
}

// lately is how old an answer may be that shows that the servers are there.
const lately = time.Second

// answers reports whether the leader has answered lately.
func (l *link) answers() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(time.Unix(0, l.peer.heard.Load())) < lately
}

func newLink(life context.Context, cfg *config, wake func(path string)) *link {
	return &link{life: life, cfg: cfg, wake: wake, changed: make(chan struct{}), nudge: waitloop.NewBell()}
}

// connect makes a client. It does not wait for a session.
func (l *link) connect() error {
	p := &peer{net: newNetwork(l), cache: casstore.NewRecent[cachedLock](mostCached), since: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	// The client calls event from its own goroutines, which wait for the mutex.
	conn, ended, err := zk.Connect(l.cfg.servers, l.cfg.session,
		zk.WithDialer(p.net.dial), zk.WithHostProvider(p.net), zk.WithLogInfo(false), zk.WithLogger(quiet{}),
		zk.WithEventCallback(func(e zk.Event) { l.event(p, e) }))
	if err != nil {
		return err
	}
	p.Conn, p.ended = conn, ended
	l.peer = p
	return nil
}

// quiet drops what the client logs: the store returns errors.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// event takes what the client tells. It is called on the goroutines of the client, and does not
// block.
func (l *link) event(p *peer, e zk.Event) {
	if e.Type != zk.EventSession {
		l.wake(e.Path)
		return
	}
	l.mu.Lock()
	switch had := p.session; {
	case e.State == zk.StateHasSession:
		if id := p.SessionID(); id != p.id {
			// The earlier session has ended, perhaps because the servers have lost their data: then versions begin anew.
			p.id = id
			p.cache.Clear()
			p.clock.clear()
		}
		p.session = true
	case had:
		p.session, p.since = false, time.Now()
	}
	l.mu.Unlock()
	l.nudge.Ring()
}

// keep follows the state of the session, until the store closes.
func (l *link) keep() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-l.nudge:
		case <-timer.C:
		case <-l.life.Done():
			return
		}
		timer.Reset(l.look())
	}
}

// look acts on the state of the session, and returns when to look again.
func (l *link) look() time.Duration {
	l.mu.Lock()
	p, session, down := l.peer, l.peer.session, time.Since(l.peer.since)
	l.mu.Unlock()
	if session {
		err := l.authenticate(p)
		l.mu.Lock()
		session = p.session // it may have ended meanwhile
		l.mu.Unlock()
		l.set(session && err == nil, err)
		if err != nil {
			return time.Second
		}
		return time.Hour
	}
	l.set(false, p.net.trouble())
	if down < l.cfg.session {
		return l.cfg.session - down
	}
	l.close()
	if err := l.connect(); err != nil {
		l.set(false, err)
		return time.Second
	}
	return l.cfg.session
}

// authenticate adds the credentials to a new client. The client repeats them by itself on later
// connections.
func (l *link) authenticate(p *peer) error {
	if p.authed || l.cfg.scheme == "" {
		return nil
	}
	if err := p.AddAuth(l.cfg.scheme, l.cfg.secret); err != nil {
		return fmt.Errorf("authentication: %w", err)
	}
	p.authed = true
	return nil
}

// set says whether requests can be sent.
func (l *link) set(ready bool, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	had := l.ready
	if l.ready = ready; ready || why != nil { // a new client does not know yet why there is no session
		l.why = why
	}
	if had != ready {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// state returns the client, whether requests can be sent, and what is closed when that changes.
func (l *link) state() (p *peer, ready bool, changed <-chan struct{}, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peer, l.ready && l.peer.session, l.changed, l.why
}

// get returns a client with a session, for which it waits for a while.
func (l *link) get(ctx context.Context, patience time.Duration) (*peer, error) {
	var timeout <-chan time.Time
	for {
		p, ready, changed, _ := l.state()
		if ready {
			return p, nil
		}
		if timeout == nil {
			timer := time.NewTimer(patience)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-changed:
			continue
		case <-time.After(50 * time.Millisecond): // the session has ended, and the keeper has not seen it yet
			continue
		case <-timeout:
		case <-l.life.Done():
		case <-ctx.Done():
		}
		return nil, errNoSession
	}
}

// close ends the client, and its session, if there is one: nodes of waiters are gone then.
func (l *link) close() {
	l.mu.Lock()
	p, session := l.peer, l.peer.session
	l.mu.Unlock()
	if !session {
		p.net.close() // otherwise the client would wait for a server that it can tell of the end
	}
	p.Close()
	p.net.close() // otherwise it would wait for the answer of a silent one
	for range p.ended {
	}
}
