package storeurl

import (
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]URL{
		"redis://localhost":                    {Scheme: "redis", Hosts: []string{"localhost"}},
		"redis://:p%40s%2F@h:6379/2?a=1&b=x+y": {Scheme: "redis", User: url.UserPassword("", "p@s/"), Hosts: []string{"h:6379"}, Path: "/2", Query: url.Values{"a": {"1"}, "b": {"x y"}}},
		"redlock://me@a,b:1,[::1]:2":           {Scheme: "redlock", User: url.User("me"), Hosts: []string{"a", "b:1", "[::1]:2"}},
		"redis+sentinel://u:p@q@a,b,[::1]/0":   {Scheme: "redis+sentinel", User: url.UserPassword("u", "p@q"), Hosts: []string{"a", "b", "[::1]"}, Path: "/0"},
		"sqlite:my%20locks.db":                 {Scheme: "sqlite", Path: "my locks.db"},
		"sqlite:///var/lib/locks.db":           {Scheme: "sqlite", Path: "/var/lib/locks.db"},
		"sqlite:C:/locks.db":                   {Scheme: "sqlite", Path: "C:/locks.db"},
		"mem:":                                 {Scheme: "mem"},
		"mem:a":                                {Scheme: "mem", Path: "a"},
	} {
		got, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if want.Query == nil {
			want.Query = url.Values{}
		}
		check(t, reflect.DeepEqual(*got, want), "%s: %+v, want %+v", text, *got, want)
	}
}

// What cannot be read is refused, and no error repeats a part of it in which a password may be.
func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"", "localhost", "Redis://a", "://a", "red is://a", ":secret@host",
		"redis://:secret/1@host", "redis://:secret?@host", "redis://:secret#@host", "redis://:secret%@host",
		"redis://secret%zz:secret@host",
		"redis://host:secret", "redis://host:0", "redis://host:70000", "redis://host:-1", "redis://::1", "redis://[::1", "redis://a,", "redis://a,,b",
		"redis://ho st", "redis://a%2fb", "redis://a\nb", "redis://a/%zz", "redis://a/x%0ay", "redis://a?x=%zz", "redis://a?a;b",
	} {
		_, err := Parse(text)
		var e *Error
		check(t, errors.As(err, &e) && errors.Is(err, ErrInvalidURL) && !strings.Contains(err.Error(), "secret"), "%q: %v", text, err)
	}
}

func TestAddrs(t *testing.T) {
	u, err := Parse("x://a,b:1,[::1],[::2]:3,10.0.0.1")
	must(t, err)
	if got, want := u.Addrs("7"), []string{"a:7", "b:1", "[::1]:7", "[::2]:3", "10.0.0.1:7"}; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWithParam(t *testing.T) {
	u, err := Parse("x://a?prefix=p:&b=1")
	must(t, err)
	changed := u.WithParam("prefix", "q:")
	got := changed.Query
	check(t, reflect.DeepEqual(got, url.Values{"prefix": {"q:"}, "b": {"1"}}), "%v", got)
	check(t, u.Query.Get("prefix") == "p:", "the original has changed")
}
