package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/pluginpb"
)

// runPlugin sends the request to a protoc plugin: the request on stdin, the response on stdout,
// complaints on stderr, as descriptor's plugin.proto defines it. The files that it answers belong into dir.
func runPlugin(bin string, request *pluginpb.CodeGeneratorRequest, dir string) ([]output, error) {
	in, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return nil, err
	}
	var stdout bytes.Buffer
	cmd := exec.Command(bin)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w", bin, err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(stdout.Bytes(), &response); err != nil {
		return nil, fmt.Errorf("%s: %w", bin, err)
	}
	if response.Error != nil {
		return nil, fmt.Errorf("%s: %w", bin, errors.New(response.GetError()))
	}
	files := make([]output, 0, len(response.File))
	for _, f := range response.File {
		files = append(files, output{path: filepath.Join(dir, path.Base(f.GetName())), content: []byte(f.GetContent())})
	}
	return files, nil
}

// format formats Go code with bin, which reads stdin and writes stdout.
func format(bin string, code []byte) ([]byte, error) {
	var stdout bytes.Buffer
	cmd := exec.Command(bin)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(code), &stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w", bin, err)
	}
	return stdout.Bytes(), nil
}
