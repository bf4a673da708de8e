package sim

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	resp "github.com/alicebob/miniredis/v2/server"
)

// server is a Redis in this process. Its clock is the bubble's, unless a fault sets it.
type server struct {
	*host
	redis *miniredis.Miniredis
	lua   *interpreter

	nr    int           // no other server has its run id
	run   int           // how often it was started
	full  bool          // maxmemory is reached
	wrote bool          // the present script has written
	alone bool          // its replicas hear nothing from it
	ahead time.Duration // by how much its clock is ahead of the bubble's
}

// today is when each server begins. A bubble begins in 2000, when times had one digit less.
var today = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newServer(nr int) *server {
	s := &server{nr: nr, host: &host{}, redis: miniredis.NewMiniRedis(), run: 1, ahead: today.Sub(began)}
	s.program = s
	s.tick()
	s.redis.ClockTTL(true)
	first, err := s.redis.Dial() // it begins to serve with the first connection
	if err != nil {
		panic(err) // a pipe can always be made
	}
	_ = first.Close()
	s.lua = newInterpreter(s.redis.Server().Dispatch)
	s.redis.Server().SetPreHook(s.before)
	return s
}

func (s *server) serve(c net.Conn) { s.redis.Server().ServeConn(c) }

func (s *server) tick() {
	s.mu.Lock()
	ahead := s.ahead
	s.mu.Unlock()
	s.redis.SetTime(time.Now().Add(ahead))
}

// jump sets the clock. What has a TTL ends at the same moment of that clock as before.
func (s *server) jump(d time.Duration) {
	s.tick()
	s.set(func() { s.ahead += d })
	s.redis.SetTime(time.Now().Add(s.ahead))
	if d < 0 {
		s.redis.FastForward(d)
	}
}

// do has the server run a command that no process has sent.
func (s *server) do(command ...string) {
	s.redis.Server().Dispatch(resp.NewPeer(bufio.NewWriter(io.Discard)), command)
}

// restart makes it another server for those who ask: its connections are gone, and its scripts.
func (s *server) restart() {
	s.set(func() { s.run++ })
	s.do("SCRIPT", "FLUSH")
}

// Commands that a server without memory refuses, and other commands that write.
var (
	growing   = []string{"SET", "HSET", "RPUSH", "LPUSH", "ZADD", "INCR", "INCRBY"}
	shrinking = []string{"DEL", "HDEL", "LREM", "ZREM", "PEXPIRE", "PEXPIREAT", "LPOP"}
)

const oom = "OOM command not allowed when used memory > 'maxmemory'."

// before sees each command before the server runs it, those of scripts too. It reports whether it has
// answered it.
func (s *server) before(peer *resp.Peer, command string, args ...string) bool {
	switch command {
	case "EVAL", "EVALSHA":
		s.set(func() { s.wrote = false })
		s.lua.run(peer, command, args)
		return true
	case "SCRIPT":
		clear(s.lua.scripts)
		peer.WriteOK()
		return true
	case "WAIT":
		peer.WriteInt(s.confirm(args))
		return true
	case "INFO":
		peer.WriteBulk(fmt.Sprintf("# Server\r\nrun_id:%08d%032d\r\n# Memory\r\nmaxmemory_policy:noeviction\r\n# Replication\r\nrole:master\r\n", s.nr, s.started()))
		return true
	case "CONFIG":
		peer.WriteStrings([]string{"maxmemory-policy", "noeviction"})
		return true
	}
	if peer != s.lua.peer { // no script's
		s.set(func() { s.wrote = false })
	}
	if s.lacksMemory(command) {
		peer.WriteError(oom)
		return true
	}
	return false
}

// confirm returns how many replicas have all writes, as WAIT does.
func (s *server) confirm(args []string) int {
	n, _ := strconv.Atoi(args[0])
	ms, _ := strconv.Atoi(args[1])
	s.mu.Lock()
	alone := s.alone
	s.mu.Unlock()
	if !alone {
		return n
	}
	time.Sleep(time.Duration(ms) * time.Millisecond)
	return 0
}

// lacksMemory reports whether the server refuses a command for want of memory. It does not after the
// first write of a script.
func (s *server) lacksMemory(command string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	grows := slices.Contains(growing, command)
	if grows && s.full && !s.wrote {
		return true
	}
	s.wrote = s.wrote || grows || slices.Contains(shrinking, command)
	return false
}

func (s *server) started() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run
}

func (*server) writes(data []byte) bool {
	head := string(data[:min(len(data), 64)])
	return strings.Contains(head, "evalsha") || strings.Contains(head, "\nset\r")
}

// stays are the kinds of keys that are there when nothing is held: counters, reasons of forced
// releases, and records. Of redlock: since when a node votes, and lines, for 30 s after the last question.
var stays = []string{"}:token", "}:t", "}:f", "}:r", "}:born", "}:line"}

// left returns the keys that are there although nothing is held.
func (s *server) left() []string {
	s.tick() // what has ended since the last request is gone
	return slices.DeleteFunc(s.redis.Keys(), func(key string) bool {
		return slices.ContainsFunc(stays, func(end string) bool { return strings.HasSuffix(key, end) })
	})
}

func (f *fleet) bootRedis() error {
	for nr := range f.redisServers {
		f.servers = append(f.servers, newServer(nr))
	}
	f.hosts, f.erase, f.setClock = hosts(f.servers), f.servers[0].redis.FlushAll, f.servers[0].jump
	f.shutDown = func() (left []string) {
		for _, s := range f.servers {
			left = append(left, s.left()...)
			s.lua.state.Close()
			s.redis.Close()
		}
		return left
	}
	return nil
}
