package lockhttp_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/internal/httprule/ruletest"
	"github.com/keyturn/keyturn/keytmpl"
	lockhttp "github.com/keyturn/keyturn/middleware/http"
)

// FuzzBody: whatever the body, a handler that decodes it into a struct changes what is locked, or does not run.
func FuzzBody(f *testing.F) {
	for _, body := range []string{
		`{"user":{"id":"u1"}}`, `{"user":{"id":9007199254740993}}`, `{"user":{"id":1,"ID":2}}`, `{"User":{"id":1}}`,
		`{"user":{"id":1},"user":{}}`, `{"user":{"id":1},"user":null}`, `{"user":{"id":1e2}}`, `{"user":{"\u0069d":"x"}}`,
		`{"u\u017fer":{"id":1},"user":{"id":2}}`, `{"user":[]}`, `[]`, ``, `{"user":{"id":"\ud800"}}`,
	} {
		f.Add(body)
	}
	h := ruletest.Middleware(f, ruletest.NewEngine(f, ruletest.NewStore()), lockhttp.Serialize("*", "user:{body.user.id}"))(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			var message struct {
				User struct {
					ID json.RawMessage `json:"id"`
				} `json:"user"`
			}
			if json.NewDecoder(r.Body).Decode(&message) != nil {
				return // a handler's own check
			}
			want := string(message.User.ID)
			if strings.HasPrefix(want, `"`) {
				_ = json.Unmarshal(message.User.ID, &want)
			}
			if key := ruletest.KeysOf(f, r); key != "user:"+keytmpl.Escape(want) {
				f.Errorf("the handler sees %q under the key %q", want, key)
			}
		}))
	f.Fuzz(func(t *testing.T, body string) {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
		check(t, rec.Code == 200 || rec.Code == 400, "%q: %d %s", body, rec.Code, rec.Body)
	})
}

// FuzzHeaders: a value of a header becomes its own key, or the request is
// refused; no idempotency key gets the response of another.
func FuzzHeaders(f *testing.F) {
	for _, value := range []string{"a", "", "a:b", "{x}", "\x00", "%", "\xff", "é", strings.Repeat("x", 600), `"a"`, `"a`, "a, b"} {
		f.Add(value, value)
	}
	eng := ruletest.NewEngine(f, ruletest.NewStore())
	serialized := ruletest.Middleware(f, eng, lockhttp.Serialize("*", "v:{header.v}"))(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if key, want := ruletest.KeysOf(f, r), "v:"+keytmpl.Escape(r.Header.Get("V")); key != want {
			f.Errorf("key = %q, want %q", key, want)
		}
	}))
	once := ruletest.Middleware(f, eng, lockhttp.Idempotency("*", func(r *http.Request) string { return r.Header.Get("V") }))(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = json.NewEncoder(w).Encode([]string{r.Header.Get("V"), strings.Trim(r.Header.Get("Idempotency-Key"), ` "`)})
		}))
	f.Fuzz(func(t *testing.T, value, key string) {
		req := httptest.NewRequest(http.MethodPost, "/", nil)
		req.Header["V"], req.Header["Idempotency-Key"] = []string{value}, []string{key}
		rec := httptest.NewRecorder()
		serialized.ServeHTTP(rec, req)
		check(t, rec.Code == 200 || rec.Code == 400, "%q: %d %s", value, rec.Code, rec.Body)
		rec = httptest.NewRecorder()
		once.ServeHTTP(rec, req)
		own, _ := json.Marshal([]string{value, strings.Trim(key, ` "`)})
		if rec.Code != 400 && (rec.Code != 200 || strings.TrimSpace(rec.Body.String()) != string(own)) {
			t.Errorf("%q, %q: %d %s", value, key, rec.Code, rec.Body)
		}
	})
}

// FuzzReplay: a response comes back as it went, or is not on record.
func FuzzReplay(f *testing.F) {
	f.Add(200, "text/plain", []byte("body"))
	f.Add(404, "a\r\nX-B: c", []byte("\r\n\r\n"))
	f.Add(299, " \x00é", []byte{0xff})
	f.Fuzz(func(t *testing.T, status int, value string, body []byte) {
		if status < 200 || status > 400 || status == 204 || status == 304 {
			t.Skip("a status that is no response, is not stored, or has no body")
		}
		h := ruletest.Middleware(t, ruletest.NewEngine(t, ruletest.NewStore()), lockhttp.Once("*", "m"))(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", value)
				w.WriteHeader(status)
				_, _ = w.Write(body)
			}))
		var answers [2]*httptest.ResponseRecorder
		for i := range answers {
			answers[i] = httptest.NewRecorder()
			h.ServeHTTP(answers[i], httptest.NewRequest(http.MethodPost, "/", nil))
		}
		first, again := answers[0], answers[1]
		if again.Code != first.Code || again.Body.String() != first.Body.String() || again.Header().Get("X-B") != "" {
			t.Errorf("first %d %q, then %d %q %v", first.Code, first.Body, again.Code, again.Body, again.Header())
		}
	})
}
