package work

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
)

// Resource is what locks protect: registers, numbers that begin at 0.
type Resource interface {
	// Get reads a register. With a token other than 0 the register refuses all smaller ones from
	// then on; the error is ErrStale if it has seen a greater one.
	Get(key string, token uint64) (uint64, error)
	// Set writes a register, with the same comparison.
	Set(key string, token, value uint64) error
}

// ErrStale says that a register has seen a greater token.
var ErrStale = errors.New("stale token")

// Registers are a Resource in memory. The zero value is ready.
type Registers struct {
	mu     sync.Mutex
	values map[string]uint64
	tokens map[string]uint64
}

// Get implements Resource.
func (r *Registers) Get(key string, token uint64) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.values[key], r.compare(key, token)
}

// Set implements Resource.
func (r *Registers) Set(key string, token, value uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.compare(key, token); err != nil {
		return err
	}
	if r.values == nil {
		r.values = map[string]uint64{}
	}
	r.values[key] = value
	return nil
}

func (r *Registers) compare(key string, token uint64) error {
	if token < r.tokens[key] && token > 0 {
		return ErrStale
	}
	if r.tokens == nil {
		r.tokens = map[string]uint64{}
	}
	r.tokens[key] = max(r.tokens[key], token)
	return nil
}

// Values returns the values of all registers.
func (r *Registers) Values() map[string]uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.values)
}

// Serve serves the registers to other processes until l is closed and all connections have ended.
// A request is a line: get key token, or set key token value. The answer is the value, or "stale".
func (r *Registers) Serve(l net.Listener) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // its client gave up
		}
		all.Go(func() {
			defer conn.Close()
			lines := bufio.NewScanner(conn)
			for lines.Scan() {
				if _, err := fmt.Fprintln(conn, r.answer(lines.Text())); err != nil {
					return
				}
			}
		})
	}
}

func (r *Registers) answer(line string) string {
	var op, key string
	var token, value uint64
	_, _ = fmt.Sscan(line, &op, &key, &token, &value) // get has no value
	var err error
	if op == "get" {
		value, err = r.Get(key, token)
	} else {
		err = r.Set(key, token, value)
	}
	if err != nil {
		return "stale"
	}
	return fmt.Sprint(value)
}

// Remote is a Resource that another process serves. It is safe for concurrent use.
type Remote struct {
	mu   sync.Mutex
	conn net.Conn
	r    *bufio.Reader
}

// Dial connects to a process that serves registers.
func Dial(addr string) (*Remote, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Remote{conn: conn, r: bufio.NewReader(conn)}, nil
}

// Close closes the connection.
func (r *Remote) Close() error { return r.conn.Close() }

func (r *Remote) ask(format string, args ...any) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := fmt.Fprintf(r.conn, format+"\n", args...); err != nil {
		return 0, err
	}
	line, err := r.r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line == "stale\n" {
		return 0, ErrStale
	}
	var value uint64
	_, err = fmt.Sscan(line, &value)
	return value, err
}

// Get implements Resource.
func (r *Remote) Get(key string, token uint64) (uint64, error) {
	return r.ask("get %s %d", key, token)
}

// Set implements Resource.
func (r *Remote) Set(key string, token, value uint64) error {
	_, err := r.ask("set %s %d %d", key, token, value)
	return err
}
