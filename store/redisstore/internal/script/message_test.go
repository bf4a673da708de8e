package script

import "testing"

func TestParseMessage(t *testing.T) {
	for text, want := range map[string]Message{
		"o 7 99 15":                  {Question: 7, Token: 99, HandOffs: 15},
		"o 7 99 15 1":                {},
		"o 7 99 0 alone":             {Question: 7, Token: 99, Alone: true},
		"o":                          {},
		"o 7 99":                     {},
		"o -7 99 0":                  {},
		"o 7 x 0":                    {},
		"o 7 99 x":                   {},
		"o 7 99999999999999999999 0": {},
	} {
		if owner, m := ParseMessage(text); owner != "o" || m != want {
			t.Errorf("%q: to %q, %+v", text, owner, m)
		}
	}
	if owner, m := ParseMessage(""); owner != "" || m != (Message{}) {
		t.Errorf("nothing: to %q, %+v", owner, m)
	}
}

func TestParseWanted(t *testing.T) {
	if owner, lock, ok := ParseWanted("o wanted lock:a b wanted c"); !ok || owner != "o" || lock != "lock:a b wanted c" {
		t.Errorf("%q, %q, %t", owner, lock, ok)
	}
	for _, text := range []string{"o 7 99 15", "o", ""} {
		if owner, lock, ok := ParseWanted(text); ok {
			t.Errorf("%q is taken for a message to the holder %q of %q", text, owner, lock)
		}
	}
}
