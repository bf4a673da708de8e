//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keyturn/keyturn/core"
	"github.com/keyturn/keyturn/internal/checktest"
	"github.com/keyturn/keyturn/store/memstore"
)

// noReader returns the end of a pipe that nobody reads any more, as in "2> >(head -1)".
func noReader(t *testing.T) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { _ = write.Close() })
	_ = read.Close()
	return write
}

// A message that nobody reads used to end keyturn (SIGPIPE), and with it the program: SIGKILL without the signal
// before it. If nobody had taken the key, it stayed held for its TTL.
func TestRunWhoseMessagesNobodyReads(t *testing.T) {
	store := onRedis(t)
	begun := filepath.Join(t.TempDir(), "begun")
	p := command(t, "--store", store, "run", "k", shortTTL, "--", "sh", "-c", "echo yes > "+begun+"; sleep 60")
	p.Stderr = noReader(t)
	p.start()
	await(t, "the program runs", exists(begun))
	must(t, checktest.ErrorOf(engine(t, store).ForceRelease(t.Context(), "k", "test")))
	p.ends(76) // it said why, and lived on to end the program in order
}

// noRoom returns a pipe that is full, and that nobody reads.
func noRoom(t *testing.T) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { _, _ = read.Close(), write.Close() })
	_ = write.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	_, err = write.Write(make([]byte, 1<<20))
	check(t, os.IsTimeout(err), "the pipe is not full: %v", err)
	return write
}

// A message for which standard error had no room kept the signals from the program, and the key held; then, keyturn
// itself from its end.
func TestRunWhoseMessagesFindNoRoom(t *testing.T) {
	store := onRedis(t)
	p := command(t, "--store", store, "run", "k", shortTTL, "--grace=100ms", "--", "sh", "-c", `trap "" TERM; echo in; sleep 60`)
	p.Stderr = noRoom(t)
	p.start().says("in")
	must(t, checktest.ErrorOf(engine(t, store).ForceRelease(t.Context(), "k", "test")))
	p.ends(76)
}

// Nobody waits for a reader, also not the end of the words about a wait. What finds no room is counted, and the rest keeps
// its order, which it had not when each message had a goroutine.
func TestSayerWithoutAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a call without an end would be a deadlock
		eng, err := core.New(memstore.New())
		must(t, err)
		read, write := io.Pipe()
		a := &app{stderr: newSayer(write)}
		stop := a.progress(t.Context(), eng, []string{"k"})
		time.Sleep(2 * progressAfter) // so it is saying something
		stop()
		var want strings.Builder
		for n := range mostTexts + 2 {
			if fmt.Fprintln(a.stderr, n); n < mostTexts-1 { // one place has the question of stop
				fmt.Fprintln(&want, n)
			}
		}
		a.stderr.flush(lastWords)
		go func() { a.stderr.end(); _ = write.Close() }()
		got, err := io.ReadAll(read)
		check(t, err == nil && strings.HasPrefix(string(got), "keyturn: waiting for k") && strings.HasSuffix(string(got), "s\n"+want.String()+"keyturn: nobody read the messages, so 3 more were dropped\n"), "%v: %s", err, got)
		must(t, eng.Close(t.Context()))
	})
}

// An execution whose output nobody reads comes to its end, and is on record.
func TestOnceWhoseOutputNobodyReads(t *testing.T) {
	store := onRedis(t)
	p := command(t, "--store", store, "once", "k", "--", "sh", "-c", "head -c 200000 /dev/zero | tr '\\0' x; echo done >&2")
	p.Stdout = noReader(t)
	p.ends(0).says("done")
	command(t, "--store", store, "show", "k").ends(0).says("record (")
}

// Its program had ended well, and nobody learned that the output was lost. Without room for that message, the key stayed
// held.
func TestOnceOnAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err) // only Linux has it
	}
	defer full.Close()
	store := onRedis(t)
	p := command(t, "--store", store, "once", "k", "--", "echo", "result")
	p.Stdout = full
	p.ends(0).says("no space left")
	p = command(t, "--store", store, "once", "k2", "--", "echo", "result")
	p.Stdout, p.Stderr = full, noRoom(t)
	p.ends(0)
}

// "keyturn watch | head -2" stayed until the next change of a lock, and the shell with it.
func TestWatchThatNobodyReadsAnyMore(t *testing.T) {
	store := onRedis(t)
	held(t, engine(t, store), "k")
	read, write, err := os.Pipe()
	must(t, err)
	p := command(t, "--store", store, "watch", "--interval", "1h")
	p.Stdout = write
	p.start()
	_ = write.Close()
	_, err = read.Read(make([]byte, 4096))
	must(t, err)
	_ = read.Close()
	p.ends(141)
}

// ls that a SIGTERM had ended had the status of SIGINT. run and once did not hear a signal while the store was opened.
func TestStatusOfASignal(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"redis://%s ls", "postgres://me@%s/db run k -- true", "postgres://me@%s/db once k -- true"} {
		for s, status := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
			silent, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			store, rest, _ := strings.Cut(args, " ")
			p := command(t, append([]string{"--store", fmt.Sprintf(store, silent.Addr()), "--timeout", "20s"}, strings.Fields(rest)...)...).start()
			conn, err := silent.Accept() // so it has begun to ask
			must(t, err)
			_ = p.Process.Signal(s)
			p.ends(status)
			_, _ = conn.Close(), silent.Close()
		}
	}
}

// What a slow reader had not taken soon after the program's end was lost, and the record said that it was complete.
func TestOnceWhoseReaderIsSlow(t *testing.T) {
	p := command(t, "--store", onRedis(t), "once", "k", "--", "sh", "-c", "head -c 100000 /dev/zero; echo done >&2")
	p.Stdout = nil
	out, err := p.StdoutPipe()
	must(t, err)
	p.start().says("done")
	time.Sleep(200 * time.Millisecond) // the slow reader
	text, err := io.ReadAll(out)
	check(t, err == nil && len(text) == 100000, "%d bytes, %v", len(text), err)
	p.ends(0)
}
