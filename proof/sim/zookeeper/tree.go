package zookeeper

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// code is an error of the protocol; 0: none.
type code int32

const (
	inconsistent code = -2 // of an operation that was not tried
	unknownOp    code = -6
	noNode       code = -101
	badVersion   code = -103
	noChildren   code = -108 // of an ephemeral node
	nodeExists   code = -110
	notEmpty     code = -111
)

type node struct {
	data     []byte
	stat     zk.Stat
	children map[string]bool
	created  int32 // how many children it has had
}

// shown is the node's stat as clients get it.
func (n *node) shown() zk.Stat {
	s := n.stat
	s.NumChildren, s.DataLength = int32(len(n.children)), int32(len(n.data))
	s.Cversion = 2*n.created - s.NumChildren
	return s
}

// change is a transaction that is being carried out.
type change struct {
	s     *Server
	zxid  int64
	now   int64    // in ms
	undo  []func() // in the order of what was done
	fires []fired  // which watches fire if it is committed
}

// fired is an event of a node.
type fired struct {
	kind zk.EventType
	path string
}

// commit carries out a transaction, or nothing of it. Needs mu.
func (s *Server) commit(do func(*change) code) code {
	c := &change{s: s, zxid: s.zxid + 1, now: time.Now().Add(s.ahead).UnixMilli()}
	if err := do(c); err != 0 {
		for _, undo := range slices.Backward(c.undo) {
			undo()
		}
		return err
	}
	s.zxid = c.zxid
	for _, f := range c.fires {
		s.fire(f)
	}
	return 0
}

// save has a node be as it is now if the transaction is not committed.
func (c *change) save(at string) {
	was := c.s.nodes[at]
	var copied node
	if was != nil {
		copied = *was
		copied.children = maps.Clone(was.children)
	}
	c.undo = append(c.undo, func() {
		if was == nil {
			delete(c.s.nodes, at)
			return
		}
		*was = copied
		c.s.nodes[at] = was
	})
}

func (c *change) create(at string, data []byte, flags int32, session int64) (name string, err code) {
	parent := c.s.nodes[path.Dir(at)]
	switch {
	case parent == nil:
		return "", noNode
	case parent.stat.EphemeralOwner != 0:
		return "", noChildren
	}
	if flags&zk.FlagSequence != 0 {
		at = fmt.Sprintf("%s%010d", at, parent.created)
	}
	if c.s.nodes[at] != nil {
		return "", nodeExists
	}
	c.save(path.Dir(at))
	c.save(at)
	n := &node{data: data, children: map[string]bool{}}
	n.stat = zk.Stat{Czxid: c.zxid, Mzxid: c.zxid, Pzxid: c.zxid, Ctime: c.now, Mtime: c.now}
	if flags&zk.FlagEphemeral != 0 {
		n.stat.EphemeralOwner = session
	}
	c.s.nodes[at] = n
	parent.children[path.Base(at)] = true
	parent.created++
	parent.stat.Pzxid = c.zxid
	c.fires = append(c.fires, fired{zk.EventNodeCreated, at}, fired{zk.EventNodeChildrenChanged, path.Dir(at)})
	return at, 0
}

// matches compares the version that a client expects.
func (c *change) matches(at string, version int32) code {
	switch n := c.s.nodes[at]; {
	case n == nil:
		return noNode
	case version != -1 && version != n.stat.Version:
		return badVersion
	}
	return 0
}

func (c *change) remove(at string, version int32) code {
	if err := c.matches(at, version); err != 0 {
		return err
	}
	if len(c.s.nodes[at].children) > 0 {
		return notEmpty
	}
	parent := path.Dir(at)
	c.save(parent)
	c.save(at)
	delete(c.s.nodes, at)
	delete(c.s.nodes[parent].children, path.Base(at))
	c.s.nodes[parent].stat.Pzxid = c.zxid
	c.fires = append(c.fires, fired{zk.EventNodeDeleted, at}, fired{zk.EventNodeChildrenChanged, parent})
	return 0
}

func (c *change) set(at string, data []byte, version int32) (zk.Stat, code) {
	if err := c.matches(at, version); err != 0 {
		return zk.Stat{}, err
	}
	c.save(at)
	n := c.s.nodes[at]
	n.data = data
	n.stat.Version++
	n.stat.Mzxid, n.stat.Mtime = c.zxid, c.now
	c.fires = append(c.fires, fired{zk.EventNodeDataChanged, at})
	return n.shown(), 0
}
