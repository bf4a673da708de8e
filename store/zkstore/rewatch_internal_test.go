package zkstore

import (
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// frame is a request with that opcode.
func frame(op int32, body ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
	b = binary.BigEndian.AppendUint32(b, 7) // its number
	return append(binary.BigEndian.AppendUint32(b, uint32(op)), body...)
}

// hello is a request for a session, or for the one with that number again.
func hello(session uint64) []byte {
	b := make([]byte, 48)
	binary.BigEndian.PutUint32(b, 44)
	binary.BigEndian.PutUint64(b[20:], session)
	return b
}

// recorder is a server's end of connections.
type recorder struct {
	net.Conn
	mu  sync.Mutex
	got []byte
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, b...)
	return len(b), nil
}

func (*recorder) SetWriteDeadline(time.Time) error { return nil }

// sent checks what has arrived by now.
func (r *recorder) sent(t *testing.T, want [][]byte) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Concat(want...)
	check(t, slices.Equal(r.got, all), "sent: %x\nwant: %x", r.got, all)
}

// TestRequestsWaitForWatches looks at the order in which requests leave a client.
func TestRequestsWaitForWatches(t *testing.T) {
	get, watch := frame(opGetData, 0), frame(opGetData, 1)
	again, ping, auth := frame(opSetWatches), frame(opPing), frame(opSetAuth)
	for _, tc := range []struct {
		name       string
		sent, want [][]byte
		after      time.Duration
	}{
		{"first session", [][]byte{hello(0), watch, get}, [][]byte{hello(0), watch, get}, 0},
		{"no watches", [][]byte{hello(0), get, hello(1), get}, [][]byte{hello(0), get, hello(1), get}, 0},
		{
			"watches",
			[][]byte{hello(0), watch, hello(1), get, ping, get, auth, again, get},
			[][]byte{hello(0), watch, hello(1), ping, auth, again, get, get, get},
			0,
		},
		{"all have fired", [][]byte{hello(0), watch, hello(1), get}, [][]byte{hello(0), watch, hello(1), get}, rewatchTime},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(&link{cfg: new(config)})
				defer n.close()
				server := new(recorder)
				var w *wire
				for _, b := range tc.sent {
					if len(b) == len(hello(0)) { // on a new connection
						w = &wire{Conn: server, n: n}
					}
					count, err := w.Write(b)
					require(t, count == len(b) && err == nil, "Write: %d of %d, %v", count, len(b), err)
				}
				if tc.after > 0 {
					time.Sleep(tc.after - time.Millisecond)
					server.sent(t, tc.want[:len(tc.want)-1])
					time.Sleep(time.Millisecond)
				}
				server.sent(t, tc.want)
			})
		})
	}
}
