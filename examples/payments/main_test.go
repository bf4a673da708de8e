package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/keyturn/keyturn/examples/internal/fleet"
)

// The test binary is the program that starts itself again.
func TestMain(m *testing.M) {
	if run := server(os.Args[1:]); run != nil {
		os.Exit(fleet.Child(run))
	}
	os.Exit(m.Run())
}

func TestOneCharge(t *testing.T) {
	for _, c := range []struct {
		guarded bool
		want    []string
	}{
		{true, []string{"201 charged, from the mark of the first", "charges in the database: 1"}},
		{false, []string{"201 charged\n", "charges in the database: 3"}}, // otherwise the crashes would prove nothing
	} {
		var out bytes.Buffer
		if err := demonstrate(&out, c.guarded); err != nil {
			t.Errorf("guarded %v: %v", c.guarded, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("guarded %v: %q is not in\n%s", c.guarded, want, &out)
			}
		}
	}
}
