//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/keyturn/keyturn/internal/redistest"
)

// unread returns the end of a pipe that nobody reads any more, as in "2> >(head -1)".
func unread(t *testing.T) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = write.Close() })
	_ = read.Close()
	return write
}

// A message that nobody reads used to end keyturn (SIGPIPE), and with it the program: SIGKILL without the signal
// before it. If nobody had taken the key, it stayed held for its TTL.
func TestRunWhoseMessagesNobodyReads(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
	begun := filepath.Join(t.TempDir(), "begun")
	p := command(t, "--store", store, "run", "k", shortTTL, "--", "sh", "-c", "echo yes > "+begun+"; sleep 60")
	p.Stderr = unread(t)
	p.start()
	await(t, "the program runs", exists(begun))
	if _, err := engine(t, store).ForceRelease(t.Context(), "k", "test"); err != nil {
		t.Fatal(err)
	}
	p.ends(76) // it said why, and lived on to end the program in order
}

// An execution whose output nobody reads comes to its end, and is on record.
func TestOnceWhoseOutputNobodyReads(t *testing.T) {
	t.Parallel()
	store := "redis://" + redistest.Start(t).Addr()
	p := command(t, "--store", store, "once", "k", "--", "sh", "-c", "head -c 200000 /dev/zero | tr '\\0' x; echo done >&2")
	p.Stdout = unread(t)
	p.ends(0).says("done")
	command(t, "--store", store, "show", "k").ends(0).says("record (")
}
