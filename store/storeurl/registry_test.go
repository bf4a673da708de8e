package storeurl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keyturn/keyturn/core/driver"
	"github.com/keyturn/keyturn/internal/checktest"
)

var (
	must    = checktest.Must
	check   = checktest.That
	require = checktest.Require
)

var errFull = errors.New("full")

// sample is what the schemes of these tests open.
type sample struct {
	driver.Store
	u *URL
}

func init() {
	Register("sample", Scheme{Open: func(_ context.Context, u *URL) (driver.Store, error) {
		p := u.Params()
		p.String("prefix")
		p.Duration("pause")
		p.Int("n")
		p.Bool("sure")
		p.OneOf("way", "here", "there")
		return &sample{u: u}, p.Err()
	}})
	Register("broken", Scheme{
		Open: func(_ context.Context, u *URL) (driver.Store, error) {
			return nil, fmt.Errorf("dial %s with %q and %q: %w", u.Hosts[0], u.Password(), u.Query.Encode(), errFull)
		},
		Prepare: func(_ context.Context, u *URL) error { return fmt.Errorf("no room for %s: %w", u.Password(), errFull) },
	})
	Register("scripted", Scheme{
		Open:    func(context.Context, *URL) (driver.Store, error) { return nil, errFull },
		Prepare: func(context.Context, *URL) error { return nil },
		Script:  func(*URL) (string, error) { return "CREATE;", nil },
	})
}

func TestOpen(t *testing.T) {
	st, err := Open(t.Context(), "sample://host/x?prefix=p&pause=2s&n=3&sure=true&way=here")
	must(t, err)
	s, ok := st.(*sample)
	check(t, ok && s.u.Path == "/x", "got %#v, want the scheme's own type", st)
}

// All that is wrong with the parameters is said at once, without their values.
func TestParams(t *testing.T) {
	_, err := Open(t.Context(), "sample://host?pause=soon&n=x&sure=perhaps&way=up&more=secret&prefix=a&prefix=b")
	check(t, errors.Is(err, ErrInvalidURL) && !strings.Contains(err.Error(), "secret"), "%v", err)
	for _, want := range []string{
		`"pause": want a duration, such as 6s or 200ms`, `"n": want a number`, `"sure": want true or false`,
		`"way": want one of here, there`, `no parameter "more"`, `"prefix": want it once`, "sample://host",
	} {
		check(t, strings.Contains(err.Error(), want), "%v\ndoes not say %s", err, want)
	}
	p := (&URL{Query: map[string][]string{"a": {"5s"}, "b": {"1"}}}).Params()
	d, ok := p.Duration("a")
	check(t, ok && d == 5*time.Second, "%v %v", d, ok)
	rest := p.Rest()
	check(t, rest.Encode() == "b=1" && p.Err() == nil, "%v %v", rest, p.Err())
}

// A scheme that is not there is answered with those that are, and with the import that is missing.
func TestUnknownScheme(t *testing.T) {
	_, err := Open(t.Context(), "redis://:secret@host?password=secret")
	var unknown *UnknownSchemeError
	require(t, errors.As(err, &unknown) && errors.Is(err, ErrInvalidURL), "%v", err)
	check(t, unknown.Import == "github.com/keyturn/keyturn/store/redisstore" && slices.Equal(unknown.Registered, Schemes()) && slices.Contains(unknown.Registered, "sample"), "%+v", unknown)
	text := err.Error()
	check(t, strings.Contains(text, unknown.Import) && strings.Contains(text, "broken, mem, sample") && !strings.Contains(text, "secret"), "%v", text)
	if _, err = Open(t.Context(), "nosuch:x"); !errors.As(err, &unknown) || unknown.Import != "" {
		t.Errorf("%v", err)
	}
}

// The table of packages that an error names is true.
func TestPackages(t *testing.T) {
	for scheme, name := range packages {
		_, err := os.Stat("../" + name)
		check(t, err == nil, "%s: %v", scheme, err)
	}
}

// Whatever an opener says, a password is not in it, as it is or as it is written in a URL.
func TestPasswordIsCut(t *testing.T) {
	u, err := Parse("broken://me:s%40cret%2F1@host?sentinel_password=other%20one")
	must(t, err)
	_, open := u.Open(t.Context())
	for _, err := range []error{open, u.Prepare(t.Context())} {
		check(t, errors.Is(err, errFull), "%v", err)
		for e := err; e != nil; e = errors.Unwrap(e) {
			for _, secret := range []string{"s@cret", "s%40cret", "other one", "other+one"} {
				check(t, !strings.Contains(e.Error(), secret) && !strings.Contains(fmt.Sprintf("%+v", e), secret), "%+v has %s", e, secret)
			}
		}
	}
	text := u.String()
	check(t, text == "broken://host", "%v", text)
}

func TestScript(t *testing.T) {
	for text, want := range map[string]string{"scripted:": "CREATE;", "sample:": ""} {
		u, _ := Parse(text)
		got, err := u.Script()
		check(t, err == nil && got == want, "%s: %q, %v", text, got, err)
		err = u.Prepare(t.Context())
		check(t, err == nil, "%s: %v", text, err)
	}
	u, _ := Parse("broken:")
	_, err := u.Script()
	check(t, errors.Is(err, errors.ErrUnsupported), "%v", err)
}

func TestRegisterRefuses(t *testing.T) {
	open := func(context.Context, *URL) (driver.Store, error) { return nil, nil }
	for name, s := range map[string]Scheme{"sample": {Open: open}, "Upper": {Open: open}, "": {Open: open}, "empty": {}} {
		func() {
			defer func() {
				check(t, recover() != nil, "%q is accepted", name)
			}()
			Register(name, s)
		}()
	}
}
