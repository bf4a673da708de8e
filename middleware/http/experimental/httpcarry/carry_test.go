package httpcarry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/experimental/carry"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/middleware/http/experimental/httpcarry"
	"github.com/keyturn/keyturn/store/memstore"
)

// engines are of processes that share nothing but a store.
func engines(t *testing.T, n int) []*core.Engine {
	t.Helper()
	store := memstore.New()
	all := make([]*core.Engine, n)
	for i := range all {
		all[i] = ruletest.NewEngine(t, store.Peer(), core.WithMaxWait(200*time.Millisecond), core.WithHooks(ruletest.SeeLeases))
	}
	return all
}

// ask sends a request under ctx, through a client that carries leases or not.
func ask(t *testing.T, ctx context.Context, carries bool, url string, header ...string) (int, string) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	if carries {
		client.Transport = httpcarry.Transport(transport)
		defer client.CloseIdleConnections()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range header {
		r.Header.Add(carry.Header, h)
	}
	before := fmt.Sprint(r.Header)
	response, err := client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	if after := fmt.Sprint(r.Header); after != before {
		t.Errorf("the request was changed: %s", after)
	}
	return response.StatusCode, string(body)
}

// held answers with how deep the request's lease is nested.
func held(w http.ResponseWriter, r *http.Request) {
	text(w, http.StatusOK, fmt.Sprint(ruletest.Seen(r.Context()).Depth()))
}

func TestRequestUnderTheCallersLease(t *testing.T) {
	two := engines(t, 2)
	rule := ruletest.Middleware(t, two[1], lockhttp.Serialize("*", "user:{path.id}"))
	believing, deaf := newSite(t), newSite(t)
	believing.handle("GET /users/{id}", http.HandlerFunc(held), httpcarry.Handler, rule)
	deaf.handle("GET /users/{id}", http.HandlerFunc(held), rule)

	err := two[0].Do(context.Background(), "user:42", func(ctx context.Context) error {
		lease, _ := core.LeaseFrom(ctx)
		for _, tt := range []struct {
			name    string
			site    *site
			carries bool
			id      string
			status  int
			body    string
		}{
			{"both", believing, true, "42", 200, "2"},
			{"both, another key", believing, true, "43", 200, "1"},
			{"only the client", deaf, true, "42", 409, ""},
			{"only the server", believing, false, "42", 409, ""},
			{"neither", deaf, false, "42", 409, ""},
		} {
			status, body := ask(t, ctx, tt.carries, tt.site.URL+"/users/"+tt.id)
			if status != tt.status || tt.body != "" && body != tt.body {
				t.Errorf("%s opted in: %d %s", tt.name, status, body)
			}
		}
		// Forged ones.
		truth := carry.Leases(ctx)
		id := lease.Owner()[len(lease.Owner())-32:]
		for _, said := range []string{strings.Replace(truth, id, strings.Repeat("0", 32), 1), strings.Replace(truth, fmt.Sprint(lease.Token()), "1", 1), "x", ""} {
			if status, body := ask(t, ctx, false, believing.URL+"/users/42", said); status != 409 {
				t.Errorf("%q: %d %s", said, status, body)
			}
		}
		if status, body := ask(t, ctx, false, believing.URL+"/users/42", truth); status != 200 {
			t.Errorf("a client of its own making: %d %s", status, body)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRequestEndsWithTheCallersLease(t *testing.T) {
	two := engines(t, 2)
	left := make(chan error, 1)
	s := newSite(t)
	entered := make(chan struct{}, 1)
	s.handle("GET /users/{id}", func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-r.Context().Done()
		left <- context.Cause(r.Context())
		ok(w, r)
	}, httpcarry.Handler, ruletest.Middleware(t, two[1], lockhttp.Serialize("*", "user:{path.id}")))
	lease, err := two[0].Acquire(context.Background(), "user:42", core.WithTTL(300*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan int, 1)
	start := func(ctx context.Context) {
		go func() {
			status, _ := ask(t, ctx, true, s.URL+"/users/42")
			answered <- status
		}()
		ruletest.Receive(t, "the request", entered)
	}
	ctx, cancel := context.WithCancel(lease.Context())
	start(ctx)
	cancel()
	if err := ruletest.Receive(t, "the handler's end", left); errors.Is(err, core.ErrLeaseLost) {
		t.Error(err)
	}
	ruletest.Receive(t, "the client", answered)

	start(context.WithoutCancel(lease.Context())) // a caller that does not notice
	ruletest.MustRelease(t, lease)
	if err := ruletest.Receive(t, "the handler's end", left); !errors.Is(err, core.ErrLeaseLost) {
		t.Error(err)
	}
	if status := ruletest.Receive(t, "the client", answered); status != 409 {
		t.Errorf("answered %d", status)
	}
}

// A carried lease is for the host that the caller named.
func TestRedirectToAnotherHost(t *testing.T) {
	eng := engines(t, 1)[0]
	said := make(chan string, 1)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/there" { // it stays, and is no more to be trusted for that
			http.Redirect(w, r, "/end", http.StatusFound)
			return
		}
		said <- r.Header.Get(carry.Header)
	}))
	defer other.Close()
	s := newSite(t)
	s.HandleFunc("GET /there", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)+r.URL.Query().Get("to"), http.StatusFound)
	})
	s.HandleFunc("GET /here", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/end", http.StatusFound) })
	s.HandleFunc("GET /end", func(_ http.ResponseWriter, r *http.Request) { said <- r.Header.Get(carry.Header) })
	err := eng.Do(context.Background(), "k", func(ctx context.Context) error {
		ask(t, ctx, true, s.URL+"/there")
		if got := ruletest.Receive(t, "the other host", said); got != "" {
			t.Errorf("another host got %q", got)
		}
		ask(t, ctx, true, s.URL+"/there?to=/there")
		if got := ruletest.Receive(t, "the other host", said); got != "" {
			t.Errorf("another host that redirects got %q", got)
		}
		ask(t, ctx, true, s.URL+"/here")
		if got := ruletest.Receive(t, "the same host", said); got != carry.Leases(ctx) {
			t.Errorf("the same host got %q", got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestDefaultTransport(t *testing.T) {
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	s := newSite(t)
	s.HandleFunc("GET /", ok)
	client := &http.Client{Transport: httpcarry.Transport(nil)}
	response, err := client.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	client.CloseIdleConnections()
	(&http.Client{Transport: httpcarry.Transport(roundTripper{})}).CloseIdleConnections()
}

// roundTripper has no connections to close.
type roundTripper struct{ http.RoundTripper }

// A description that went over TLS is not sent in clear.
func TestRedirectOutOfTLS(t *testing.T) {
	eng := engines(t, 1)[0]
	var said []string
	next := func(r *http.Request) (*http.Response, error) {
		said = append(said, r.URL.Scheme+" "+r.Header.Get(carry.Header))
		answer := httptest.NewRecorder()
		if r.URL.Scheme == "https" {
			http.Redirect(answer, r, "http://service.test/", http.StatusFound)
		}
		response := answer.Result()
		response.Request = r
		return response, nil
	}
	client := &http.Client{Transport: httpcarry.Transport(transportFunc(next))}
	err := eng.Do(context.Background(), "k", func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://service.test/", nil)
		if err != nil {
			return err
		}
		response, err := client.Do(r)
		if err != nil {
			return err
		}
		if want := []string{"https " + carry.Leases(ctx), "http "}; !slices.Equal(said, want) {
			t.Errorf("sent %q, want %q", said, want)
		}
		return response.Body.Close()
	})
	if err != nil {
		t.Error(err)
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
