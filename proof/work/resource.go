package work

import (
	"errors"
	"maps"
	"net"
	"net/rpc"
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

// Access is a request to the registers of another process.
type Access struct {
	Key          string
	Token, Value uint64
}

// served has the methods of registers as net/rpc wants them.
type served struct{ *Registers }

func (s served) Get(a Access, value *uint64) (err error) {
	*value, err = s.Registers.Get(a.Key, a.Token)
	return err
}

func (s served) Set(a Access, _ *bool) error { return s.Registers.Set(a.Key, a.Token, a.Value) }

// Serve serves the registers to other processes until l is closed and all connections have ended.
func (r *Registers) Serve(l net.Listener) {
	server := rpc.NewServer()
	if err := server.RegisterName("registers", served{r}); err != nil {
		panic(err) // it has the methods for that
	}
	var all sync.WaitGroup
	defer all.Wait()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil { // otherwise its client gave up
			all.Go(func() { server.ServeConn(conn) })
		}
	}
}

// Remote is a Resource that another process serves. It is safe for concurrent use.
type Remote struct{ client *rpc.Client }

// Dial connects to a process that serves registers.
func Dial(addr string) (*Remote, error) {
	client, err := rpc.Dial("tcp", addr)
	return &Remote{client}, err
}

func (r *Remote) call(method string, a Access, answer any) error {
	err := r.client.Call("registers."+method, a, answer)
	if err != nil && err.Error() == ErrStale.Error() {
		return ErrStale
	}
	return err
}

// Get implements Resource.
func (r *Remote) Get(key string, token uint64) (value uint64, err error) {
	err = r.call("Get", Access{Key: key, Token: token}, &value)
	return value, err
}

// Set implements Resource.
func (r *Remote) Set(key string, token, value uint64) error {
	return r.call("Set", Access{key, token, value}, new(bool))
}
