package script

import "testing"

func TestParseMessage(t *testing.T) {
	for text, want := range map[string]Message{
		"o 7 99":                   {Question: 7, Token: 99},
		"o 7 99 1":                 {},
		"o 7 99 alone":             {Question: 7, Token: 99, Alone: true},
		"o":                        {},
		"o 7":                      {},
		"o -7 99":                  {},
		"o 7 x":                    {},
		"o 7 99999999999999999999": {},
	} {
		if owner, m := ParseMessage(text); owner != "o" || m != want {
			t.Errorf("%q: to %q, %+v", text, owner, m)
		}
	}
	if owner, m := ParseMessage(""); owner != "" || m != (Message{}) {
		t.Errorf("nothing: to %q, %+v", owner, m)
	}
}
