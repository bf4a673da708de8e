package load

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answers is a gateway that answers what is in the list, and the last again and
// again.
type answers struct {
	list  []*http.Response
	sent  int
	hosts []string
}

func (a *answers) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	resp := a.list[min(a.sent, len(a.list)-1)]
	a.sent++
	a.hosts = append(a.hosts, req.URL.Host)
	if resp == nil {
		return nil, errors.New("connection refused")
	}
	again := *resp
	again.Body = io.NopCloser(strings.NewReader("why\n"))
	return &again, nil
}

func answer(code int, retryAfter string) *http.Response {
	h := make(http.Header)
	if retryAfter != "" {
		h.Set("Retry-After", retryAfter)
	}
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Header: h}
}

func TestClientRepeatsWhatWasRefused(t *testing.T) {
	for _, test := range []struct {
		name  string
		list  []*http.Response
		sent  int
		least time.Duration // it took
		fails bool
	}{
		{"done", []*http.Response{answer(204, "")}, 1, 0, false},
		{"409", []*http.Response{answer(409, ""), answer(200, "")}, 2, 100 * time.Millisecond, false},
		{"429", []*http.Response{answer(429, "2"), answer(200, "")}, 2, 2 * time.Second, false},
		{"503 twice", []*http.Response{answer(503, "1"), answer(503, "1"), answer(202, "")}, 3, 2 * time.Second, false},
		{"400", []*http.Response{answer(400, ""), answer(200, "")}, 1, 0, true},
		{"500", []*http.Response{answer(500, "1"), answer(200, "")}, 1, 0, true},
		{"no connection", []*http.Response{nil, answer(200, "")}, 1, 0, true},
		{"nonsense in the header", []*http.Response{answer(409, "soon"), answer(200, "")}, 2, 100 * time.Millisecond, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gateway := &answers{list: test.list}
				c := newClient([]string{"a:1", "b:2"})
				c.http.Transport = gateway
				begin := time.Now()
				err := c.do(t.Context(), 3, http.MethodPut, "/x", nil)
				if (err != nil) != test.fails {
					t.Errorf("error: %v", err)
				}
				if gateway.sent != test.sent {
					t.Errorf("sent %d times, want %d", gateway.sent, test.sent)
				}
				if took := time.Since(begin); took < test.least || took > 2*test.least {
					t.Errorf("took %v, want %v or somewhat more", took, test.least)
				}
				if gateway.hosts[0] != "b:2" {
					t.Errorf("sent to %s", gateway.hosts[0])
				}
				if done := int(c.done.Load()); (done == 1) == test.fails {
					t.Errorf("counted %d done", done)
				}
			})
		})
	}
}

func TestClientGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient([]string{"a:1"})
		c.http.Transport = &answers{list: []*http.Response{answer(409, "1")}}
		begin := time.Now()
		err := c.do(t.Context(), 0, http.MethodPut, "/x", nil)
		if err == nil || !strings.Contains(err.Error(), "PUT /x: Conflict: why") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(begin); took > patience {
			t.Errorf("took %v", took)
		}
	})
}

func TestClientStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient([]string{"a:1"})
		c.http.Transport = &answers{list: []*http.Response{answer(409, "1")}}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the gateway crashed")
		time.AfterFunc(1500*time.Millisecond, func() { cancel(why) })
		if err := c.do(ctx, 0, http.MethodPut, "/x", nil); !errors.Is(err, why) {
			t.Errorf("got %v", err)
		}
	})
}

func TestTogether(t *testing.T) {
	broken := errors.New("broken")
	err := parallel(t.Context(), 3, func(ctx context.Context, i int) error {
		if i == 1 {
			return broken
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if err != broken {
		t.Errorf("got %v", err)
	}
}

func TestViolations(t *testing.T) {
	for _, test := range []struct {
		members string
		want    int
	}{
		{"", 0},
		{"a b c d e", 0},
		{"a b c d e f g", 2},
		{"a b a", 1},
		{"a a a", 2},
		{"a b c d e f a", 2}, // one too many, and one twice
	} {
		if got := Violations(strings.Fields(test.members)); got != test.want {
			t.Errorf("%q: %d violations, want %d", test.members, got, test.want)
		}
	}
}
