package zkstore

import (
	"slices"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/core/driver"
)

// Every key has a name of its own that ZooKeeper accepts, and can be read back.
func TestEscape(t *testing.T) {
	names := make(map[string]string)
	for _, key := range []string{"a", "user:42", ".", "..", "a/b", "a%2Fb", "a%b", "ü", "a b", "zookeeper", strings.Repeat("é", 256)} {
		name := lockNames.Of(key)
		other, taken := names[name]
		check(t, !taken, "%q and %q are both %q", key, other, name)
		names[name] = key
		check(t, !strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r == '.' || r <= ' ' || r > '~' }), "%q is %q", key, name)
		back, ok := lockNames.Key(name)
		check(t, ok && back == key, "%q is read as %q, %v", key, back, ok)
	}
	err := decode("/locks/"+lockNames.Of("a.b/c")+"/r", nil, nil)
	check(t, strings.Contains(err.Error(), "/a.b/c/r"), "%v has the key in another form", err)
	for _, name := range []string{"%", "%4", "%zz", "%61", "%2f", "a.b"} {
		key, ok := lockNames.Key(name)
		check(t, !ok, "%q is read as %q", name, key)
	}
}

// Waiters come in the order of the numbers that the server gave them, also when the count of an
// int32 has overflowed. A node that is not of this store is ignored.
func TestParseChildren(t *testing.T) {
	id := func(c string) string { return strings.Repeat(c, idDigits) }
	c := parseChildren([]string{
		"w-" + id("c") + "-p3o--2147483648", "w-" + id("a") + "-x-2147483646", "w-" + id("b") + "-s-2147483647",
		"w-" + id("a") + "-x-2147483640", "w-" + id("d") + "-x-0000000001", "h-" + id("d"), "r", "v", "f-" + id("e"),
		"w-short-x-1", "w-" + id("e") + "-q-0000000001", "w-" + id("e") + "-p0-0000000001", "other",
	})
	var order []string
	for _, w := range c.waiters {
		order = append(order, w.id[:1])
	}
	check(t, slices.Equal(order, []string{"a", "b", "c"}), "the waiters are %v", order)
	w := c.waiters[2]
	check(t, w.data.Mode == driver.ModePermit && w.data.Permits == 3 && w.once, "%+v", w)
	if len(c.stray) != 2 { // the second place of a, and that of d, which holds the lock
		t.Errorf("of no use are %v", c.stray)
	}
	check(t, len(c.holders) == 1 && c.record && c.version && slices.Contains(c.forced, "f-"+id("e")), "%+v", c)
}
