package servertest

import "testing"

// Long leaves a test to the long run. The short run has the contract of each store once, the quick tests, and
// what finds bugs that nothing else finds. A test that cuts, kills, restarts or floods servers, and takes more
// than about a second alone, is for the long run.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("only in the long run")
	}
}

// LongParallel is Long for a test that runs beside others.
func LongParallel(t *testing.T) {
	t.Helper()
	Long(t)
	t.Parallel()
}
