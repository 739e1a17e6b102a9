package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// Decodes each manifest strictly as the type it claims to be, and prints the kinds, one per line. An unknown kind, an
// unknown or duplicate field and a value of the wrong type are errors; all of them are reported.
func decode(in io.Reader, out io.Writer) error {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewYAMLReader(bufio.NewReader(in))
	var problems []error
	for number := 1; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return errors.Join(problems...)
		}
		if err != nil {
			return errors.Join(append(problems, fmt.Errorf("manifest %d: %w", number, err))...)
		}
		if _, kind, err := decoder.Decode(document, nil, nil); err != nil {
			problems = append(problems, fmt.Errorf("manifest %d: %w", number, err))
		} else {
			fmt.Fprintln(out, kind.Kind)
		}
	}
}
