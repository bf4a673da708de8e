package zookeeper

import (
	"maps"
	"slices"

	"github.com/go-zookeeper/zk"
)

// The requests.
const (
	opCreate      = 1
	opDelete      = 2
	opExists      = 3
	opGetData     = 4
	opSetData     = 5
	opSync        = 9
	opPing        = 11
	opGetChildren = 12
	opCheck       = 13
	opMulti       = 14
	opSetWatches  = 101
	opClose       = -11

	opError = -1 // in answers
)

// answer answers a request, and reports whether the connection goes on.
func (s *Server) answer(c *conn, in *input) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.session.conn != c || s.sessions[c.session.id] != c.session {
		return false // the session has ended, or moved
	}
	c.session.expires.Reset(c.session.timeout)
	xid, op := in.int32(), in.int32()
	var body output
	err := s.carryOut(c, op, in, &body)
	var out output
	out.int32(xid)
	out.int64(s.zxid)
	out.int32(int32(err))
	if err == 0 {
		out = append(out, body...)
	}
	if op == opClose {
		s.end(c.session)
	}
	c.send(out)
	return op != opClose
}

// carryOut does what a request asks for. Needs mu.
func (s *Server) carryOut(c *conn, op int32, in *input, out *output) code {
	switch op {
	case opPing, opClose:
		return 0
	case opSync:
		out.text(in.text())
		return 0
	case opExists, opGetData, opGetChildren:
		return s.look(c, op, in, out)
	case opSetWatches:
		s.setWatches(c, in)
		return 0
	case opMulti:
		s.multi(c, in, out)
		return 0
	}
	return s.commit(func(ch *change) code { return ch.apply(c, op, in, out) })
}

// look reads a node, and watches it if the client wants that.
func (s *Server) look(c *conn, op int32, in *input, out *output) code {
	at, watch := in.text(), in.flag()
	n := s.nodes[at]
	if n == nil {
		if watch && op == opExists {
			c.data[at] = true
		}
		return noNode
	}
	if op == opGetChildren {
		out.texts(slices.Sorted(maps.Keys(n.children)))
	} else if op == opGetData {
		out.bytes(n.data)
	}
	out.stat(n.shown())
	if watch && op == opGetChildren {
		c.children[at] = true
	} else if watch {
		c.data[at] = true
	}
	return 0
}

// apply carries out one operation that writes.
func (ch *change) apply(c *conn, op int32, in *input, out *output) code {
	at := in.text()
	switch op {
	case opCreate:
		data := in.bytes()
		in.skipACL()
		name, err := ch.create(at, data, in.int32(), c.session.id)
		out.text(name)
		return err
	case opDelete:
		return ch.remove(at, in.int32())
	case opCheck:
		return ch.matches(at, in.int32())
	case opSetData:
		data := in.bytes()
		stat, err := ch.set(at, data, in.int32())
		out.stat(stat)
		return err
	}
	return unknownOp
}

// multi carries out a transaction. Its answer has a result for each operation.
func (s *Server) multi(c *conn, in *input, out *output) {
	var results []code
	failed := s.commit(func(ch *change) (failed code) {
		for {
			op, last := in.int32(), in.flag()
			in.int32()
			if last {
				return failed
			}
			var body output
			err := ch.apply(c, op, in, &body) // also behind one that failed, to read what follows
			if failed != 0 {
				err = inconsistent
			}
			results = append(results, err)
			if failed == 0 {
				failed = err
			}
			out.opResult(op, false, 0)
			*out = append(*out, body...)
		}
	})
	if failed != 0 {
		*out = nil
		for _, err := range results {
			out.opResult(opError, false, err)
			out.int32(int32(err))
		}
	}
	out.opResult(-1, true, -1)
}

// watches reports whether the connection wants to know of an event, and forgets the watch.
func (c *conn) watches(f fired) bool {
	data, children := c.data[f.path], c.children[f.path]
	switch f.kind {
	case zk.EventNodeChildrenChanged:
		delete(c.children, f.path)
		return children
	case zk.EventNodeDeleted:
		delete(c.children, f.path)
		delete(c.data, f.path)
		return data || children
	}
	delete(c.data, f.path)
	return data
}

// tell sends an event. Needs mu.
func (c *conn) tell(f fired) {
	var out output
	out.int32(-1) // the number of no request
	out.int64(-1)
	out.int32(0)
	out.int32(int32(f.kind))
	out.int32(int32(zk.StateSyncConnected))
	out.text(f.path)
	c.send(out)
}

// setWatches sets those of the client's connection before, and tells what it has missed. Needs mu.
func (s *Server) setWatches(c *conn, in *input) {
	seen := in.int64()
	for kind, set := range []map[string]bool{c.data, c.data, c.children} {
		for _, at := range in.texts() {
			n := s.nodes[at]
			const ofAbsent, ofChildren = 1, 2
			switch {
			case n == nil && kind != ofAbsent:
				c.tell(fired{zk.EventNodeDeleted, at})
			case n != nil && kind == ofAbsent:
				c.tell(fired{zk.EventNodeCreated, at})
			case kind == ofChildren && n.stat.Pzxid > seen:
				c.tell(fired{zk.EventNodeChildrenChanged, at})
			case kind == 0 && n.stat.Mzxid > seen:
				c.tell(fired{zk.EventNodeDataChanged, at})
			default:
				set[at] = true
			}
		}
	}
}
