// Reads Kubernetes manifests from standard input and decodes each strictly as the type it claims to be: an unknown
// kind, an unknown or doubled field and a value of the wrong type are errors. Prints the kinds, one a line.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewYAMLReader(bufio.NewReader(os.Stdin))
	status := 0
	for number := 1; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			_, kind, wrong := decoder.Decode(document, nil, nil)
			if err = wrong; err == nil {
				fmt.Println(kind.Kind)
				continue
			}
		}
		fmt.Fprintf(os.Stderr, "manifest %d: %v\n", number, err)
		status = 1
	}
	os.Exit(status)
}
