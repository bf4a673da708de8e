package httpcarry_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/core/experimental/carry"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
	"github.com/keyturn/keyturn/middleware/http/experimental/httpcarry"
	"github.com/keyturn/keyturn/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must, wantNil = checktest.Must, checktest.WantNil

// A request gets the key that its caller holds, and no other caller's, if both sides opted in.
func TestRequestUnderTheCallersLease(t *testing.T) {
	store := memstore.New()
	caller := ruletest.NewEngine(t, store)
	callee := ruletest.NewEngine(t, store.Peer(), core.WithHooks(ruletest.SeeLeases))
	depth := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, ruletest.Seen(r.Context()).Depth())
	})
	mux := http.NewServeMux()
	mux.Handle("GET /users/{id}", ruletest.Middleware(t, callee, lockhttp.Serialize("*", "user:{path.id}", core.WithFailFast()))(depth))
	believing, deaf := ruletest.Serve(t, httpcarry.Handler(mux), false).URL, ruletest.Serve(t, mux, false).URL

	err := caller.Do(context.Background(), "user:42", func(ctx context.Context) error {
		lease, _ := core.LeaseFrom(ctx)
		truth := carry.Leases(ctx)
		forged := strings.Replace(truth, fmt.Sprint(lease.Token()), "1", 1)
		transport := &http.Transport{}
		plain, carries := &http.Client{Transport: transport}, &http.Client{Transport: httpcarry.Transport(transport)}
		defer carries.CloseIdleConnections() // and those of plain
		for _, tt := range []struct {
			name   string
			url    string
			client *http.Client
			said   []string
			status int
			body   string
		}{
			{"both opted in", believing + "/users/42", carries, nil, 200, "2"},
			{"another key", believing + "/users/43", carries, nil, 200, "1"},
			{"only the client", deaf + "/users/42", carries, nil, 409, ""},
			{"only the server", believing + "/users/42", plain, nil, 409, ""},
			{"a forged token", believing + "/users/42", plain, []string{forged}, 409, ""},
			{"a client of its own making, on two lines", believing + "/users/42", plain, []string{forged, truth}, 200, "2"},
		} {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, tt.url, nil)
			must(t, err)
			for _, h := range tt.said {
				r.Header.Add(carry.Header, h)
			}
			before := fmt.Sprint(r.Header)
			response, err := tt.client.Do(r)
			must(t, err)
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			if after := fmt.Sprint(r.Header); err != nil || response.StatusCode != tt.status || tt.body != "" && string(body) != tt.body || after != before {
				t.Errorf("%s: %s %s, %v; the request has the headers %s", tt.name, response.Status, body, err, after)
			}
		}
		return nil
	})
	wantNil(t, err)
}

// A carried lease is for the host that the caller named, and what went over TLS is not sent in clear.
func TestRedirects(t *testing.T) {
	eng := ruletest.NewEngine(t, memstore.New())
	for _, hops := range [][]string{
		{"http://a.test/1", "http://a.test/2"},
		{"http://a.test/", "http://b.test/"},
		{"http://a.test/", "http://b.test/1", "http://b.test/2"}, // it stays, and is no more to be trusted for that
		{"https://a.test/", "http://a.test/"},
	} {
		var said []string
		client := &http.Client{Transport: httpcarry.Transport(transportFunc(func(r *http.Request) (*http.Response, error) {
			said = append(said, r.Header.Get(carry.Header))
			answer := httptest.NewRecorder()
			if len(said) < len(hops) {
				http.Redirect(answer, r, hops[len(said)], http.StatusFound)
			}
			response := answer.Result()
			response.Request = r
			return response, nil
		}))}
		err := eng.Do(context.Background(), "k", func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, hops[0], nil)
			if err != nil {
				return err
			}
			r.Header.Set(carry.Header, "copied by a proxy")
			response, err := client.Do(r)
			if err != nil {
				return err
			}
			for i, got := range said {
				want := ""
				if strings.HasPrefix(hops[i], strings.TrimRight(hops[0], "12")) {
					want = carry.Leases(ctx)
				}
				if got != want || len(said) != len(hops) {
					t.Errorf("%q: %s got %q, want %q", hops, hops[i], got, want)
				}
			}
			return response.Body.Close()
		})
		wantNil(t, err)
	}
}

func TestDefaultTransport(t *testing.T) {
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	s := ruletest.Serve(t, http.HandlerFunc(ruletest.Done), false)
	client := &http.Client{Transport: httpcarry.Transport(nil)}
	response, err := client.Get(s.URL)
	must(t, err)
	response.Body.Close()
	client.CloseIdleConnections()
	(&http.Client{Transport: httpcarry.Transport(transportFunc(nil))}).CloseIdleConnections() // has none to close
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
