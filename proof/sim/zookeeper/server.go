package zookeeper

import (
	"encoding/binary"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// Server is a ZooKeeper. Make one with [New].
type Server struct {
	mu          sync.Mutex
	zxid        int64 // its upper half is the epoch
	nodes       map[string]*node
	sessions    map[int64]*session
	lastSession int64
	conns       []*conn       // in the order in which they came, so that each history repeats itself
	ahead       time.Duration // by how much its clock is ahead of the bubble's
}

// session is one of a client. It survives its connections.
type session struct {
	id      int64
	timeout time.Duration
	expires *time.Timer
	conn    *conn // nil: none at present
}

// New makes an empty server.
func New() *Server {
	s := new(Server)
	s.clear()
	return s
}

const firstEpoch = 1 << 32

func (s *Server) clear() {
	s.zxid = firstEpoch
	s.nodes = map[string]*node{"/": {children: map[string]bool{}}}
	s.sessions = map[int64]*session{}
}

// Restart begins another epoch. Sessions have all their time anew.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zxid = (s.zxid>>32 + 1) << 32
	for _, se := range s.sessions {
		se.expires.Reset(se.timeout)
	}
}

// SetClock sets its clock forward by d, or back.
func (s *Server) SetClock(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// Erase has it lose everything.
func (s *Server) Erase() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endSessions()
	s.clear()
}

func (s *Server) endSessions() {
	for _, se := range s.sessions {
		se.expires.Stop()
	}
}

// Stop ends all connections.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endSessions()
	for _, c := range s.conns {
		_ = c.Close()
	}
}

// Paths returns the paths of all nodes.
func (s *Server) Paths() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.nodes))
}

// conn is a connection. Watches belong to it, not to its session.
type conn struct {
	net.Conn
	session  *session
	data     map[string]bool // nodes whose next change it wants to know, also of those that do not exist
	children map[string]bool // nodes whose next child it wants to know
}

// Serve takes a connection.
func (s *Server) Serve(with net.Conn) {
	c := &conn{Conn: with, data: map[string]bool{}, children: map[string]bool{}}
	s.mu.Lock()
	s.conns = append(s.conns, c)
	s.mu.Unlock()
	go func() {
		defer s.hangUp(c)
		if hello, err := c.read(); err != nil || !s.greet(c, hello) {
			return
		}
		for {
			request, err := c.read()
			if err != nil || !s.answer(c, request) {
				return
			}
		}
	}()
}

func (s *Server) hangUp(c *conn) {
	_ = c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = slices.DeleteFunc(s.conns, func(other *conn) bool { return other == c })
	if c.session != nil && c.session.conn == c {
		c.session.conn = nil
	}
}

// read reads a record behind its length.
func (c *conn) read() (*input, error) {
	length := make([]byte, 4)
	if _, err := io.ReadFull(c, length); err != nil {
		return nil, err
	}
	record := make([]byte, binary.BigEndian.Uint32(length))
	_, err := io.ReadFull(c, record)
	return &input{rest: record}, err
}

// send writes a record. It needs mu, so that a watch's event comes before the change can be read.
func (c *conn) send(record output) {
	var framed output
	framed.bytes(record)
	_, _ = c.Write(framed) // the client's next connection tells it what it has missed
}

// The least and greatest timeouts of a server with ticks of 100 ms.
const (
	leastTimeout = 200 * time.Millisecond
	mostTimeout  = 2 * time.Second
)

// greet opens a session, or goes on with one.
func (s *Server) greet(c *conn, in *input) bool {
	in.int32() // the version of the protocol
	seen, timeout, id := in.int64(), in.int32(), in.int64()
	in.bytes() // the password
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen > s.zxid {
		return false // the client has seen what this server does not know
	}
	se := s.sessions[id]
	if id == 0 {
		s.lastSession++
		se = &session{id: s.lastSession, timeout: min(max(time.Duration(timeout)*time.Millisecond, leastTimeout), mostTimeout)}
		se.expires = time.AfterFunc(se.timeout, func() { s.expire(se) })
		s.sessions[se.id] = se
	}
	if se == nil { // it has expired
		se = &session{}
	} else {
		if se.conn != nil {
			_ = se.conn.Close()
		}
		se.conn, c.session = c, se
		se.expires.Reset(se.timeout)
	}
	var out output
	out.int32(0)
	out.int32(int32(se.timeout / time.Millisecond))
	out.int64(se.id)
	out.bytes(make([]byte, 16))
	c.send(out)
	return c.session != nil
}

func (s *Server) expire(se *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[se.id] != se {
		return
	}
	s.end(se)
	if se.conn != nil {
		_ = se.conn.Close()
	}
}

// end ends a session with its nodes. Needs mu.
func (s *Server) end(se *session) {
	se.expires.Stop()
	delete(s.sessions, se.id)
	s.commit(func(c *change) code {
		for _, at := range slices.Sorted(maps.Keys(s.nodes)) {
			if s.nodes[at].stat.EphemeralOwner == se.id {
				c.remove(at, -1)
			}
		}
		return 0
	})
}

// fire tells those who watch a node. Needs mu.
func (s *Server) fire(f fired) {
	for _, c := range s.conns {
		if c.watches(f) {
			c.tell(f)
		}
	}
}
