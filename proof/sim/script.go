package sim

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync"

	resp "github.com/alicebob/miniredis/v2/server"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// interpreter runs the scripts of one server. It is the embedded Redis' own interpreter of Lua, which
// is made once here and not for each call: that would take most of the time of a simulation.
type interpreter struct {
	state   *lua.LState
	scripts map[string]*lua.LFunction // by hash: what the server knows
	answer  *bytes.Buffer
	peer    *resp.Peer
	serve   func(*resp.Peer, []string) // runs a command
}

// compiled has the code of each script, for all servers.
var compiled sync.Map

func newInterpreter(serve func(*resp.Peer, []string)) *interpreter {
	var answer bytes.Buffer
	in := &interpreter{
		state: lua.NewState(), scripts: map[string]*lua.LFunction{}, serve: serve,
		answer: &answer, peer: resp.NewPeer(bufio.NewWriter(&answer)),
	}
	redis := in.state.NewTable()
	redis.RawSetString("call", in.state.NewFunction(func(l *lua.LState) int { return in.call(l, true) }))
	redis.RawSetString("pcall", in.state.NewFunction(func(l *lua.LState) int { return in.call(l, false) }))
	in.state.SetGlobal("redis", redis)
	return in
}

// run runs EVAL or EVALSHA.
func (in *interpreter) run(peer *resp.Peer, command string, args []string) {
	hash := args[0]
	if command == "EVAL" {
		sum := sha1.Sum([]byte(args[0]))
		hash = hex.EncodeToString(sum[:])
		in.learn(hash, args[0])
	}
	script := in.scripts[hash]
	if script == nil {
		peer.WriteError("NOSCRIPT No matching script. Please use EVAL.")
		return
	}
	n, _ := strconv.Atoi(args[1])
	in.state.SetGlobal("KEYS", in.table(args[2:2+n]))
	in.state.SetGlobal("ARGV", in.table(args[2+n:]))
	top := in.state.GetTop()
	in.state.Push(script)
	if err := in.state.PCall(0, 1, nil); err != nil {
		peer.WriteError(message(err))
		return
	}
	reply(peer, in.state.Get(-1))
	in.state.SetTop(top)
}

// message is the text of an error that a script has raised, in the words of Redis 7.
func message(err error) string {
	text := "ERR " + err.Error()
	if raised, ok := err.(*lua.ApiError); ok {
		if t, ok := raised.Object.(*lua.LTable); ok {
			text = lua.LVAsString(t.RawGetString("err"))
		} else {
			text = "ERR " + lua.LVAsString(raised.Object)
		}
	}
	return text + " script: simulated, on @user_script:1."
}

func (in *interpreter) learn(hash, text string) {
	code, ok := compiled.Load(text)
	if !ok {
		chunk, err := parse.Parse(strings.NewReader(text), "script")
		if err != nil {
			panic(err) // the scripts are ours
		}
		if code, err = lua.Compile(chunk, "script"); err != nil {
			panic(err)
		}
		compiled.Store(text, code)
	}
	in.scripts[hash] = in.state.NewFunctionFromProto(code.(*lua.FunctionProto))
}

func (in *interpreter) table(words []string) *lua.LTable {
	t := in.state.CreateTable(len(words), 0)
	for i, w := range words {
		t.RawSetInt(i+1, lua.LString(w))
	}
	return t
}

// call is redis.call, or redis.pcall if an error is to be returned and not raised.
func (in *interpreter) call(l *lua.LState, raise bool) int {
	args := make([]string, l.GetTop())
	for i := range args {
		args[i] = lua.LVAsString(l.Get(i + 1))
	}
	in.answer.Reset()
	in.serve(in.peer, args)
	in.peer.Flush()
	v, rest := value(l, in.answer.Bytes())
	if len(rest) > 0 {
		panic(fmt.Sprintf("%q behind the answer to %q", rest, args))
	}
	if t, ok := v.(*lua.LTable); ok && raise && t.RawGetString("err") != lua.LNil {
		l.Error(t, 1)
	}
	l.Push(v)
	return 1
}

// value reads an answer as Redis converts it for scripts.
func value(l *lua.LState, answer []byte) (v lua.LValue, rest []byte) {
	head, rest, _ := bytes.Cut(answer, []byte("\r\n"))
	text := string(head[1:])
	n, _ := strconv.Atoi(text)
	switch head[0] {
	case ':':
		return lua.LNumber(n), rest
	case '+', '-':
		t := l.NewTable()
		t.RawSetString(map[byte]string{'+': "ok", '-': "err"}[head[0]], lua.LString(text))
		return t, rest
	case '$':
		if n < 0 {
			return lua.LFalse, rest
		}
		return lua.LString(rest[:n]), rest[n+2:]
	case '*':
		if n < 0 {
			return lua.LFalse, rest
		}
		t := l.CreateTable(n, 0)
		for i := range n {
			var v lua.LValue
			v, rest = value(l, rest)
			t.RawSetInt(i+1, v)
		}
		return t, rest
	default:
		panic(fmt.Sprintf("an answer that begins with %q", head))
	}
}

// reply writes what a script returns, as Redis converts it.
func reply(peer *resp.Peer, v lua.LValue) {
	switch v := v.(type) {
	case lua.LBool:
		if v {
			peer.WriteInt(1)
		} else {
			peer.WriteNull()
		}
	case lua.LNumber:
		peer.WriteInt(int(v))
	case lua.LString:
		peer.WriteBulk(string(v))
	case *lua.LTable:
		if err := v.RawGetString("err"); err != lua.LNil {
			peer.WriteError(lua.LVAsString(err))
			return
		}
		if ok := v.RawGetString("ok"); ok != lua.LNil {
			peer.WriteInline(lua.LVAsString(ok))
			return
		}
		n := 0
		for v.RawGetInt(n+1) != lua.LNil {
			n++
		}
		peer.WriteLen(n)
		for i := range n {
			reply(peer, v.RawGetInt(i+1))
		}
	default:
		peer.WriteNull()
	}
}
